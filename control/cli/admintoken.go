// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ikhnos/continuum/control/cli/apiclient"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
)

func newAdminTokenCommand() *cobra.Command {
	return group("admin-token", "People and machines that may administer",
		newAdminTokenCreateCommand(), newAdminTokenListCommand(), newAdminTokenRevokeCommand(), newShowInitialCommand(), newAdminTokenResetCommand())
}

func newAdminTokenCreateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Make an admin token",
		Args:  exactArgs("a name"),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, args []string) error {
			request := operators.AdminTokenRequest{Name: args[0], Role: operators.AdminRole(text(cmd, "role"))}
			if expires, _ := cmd.Flags().GetDuration("expires"); expires > 0 {
				end := controlapi.Seconds(environmentOf(cmd).now().Add(expires))
				request.ExpiresAt = &end
			}
			token, err := client.CreateAdminToken(cmd.Context(), request)
			if err != nil {
				return err
			}
			return deliver(cmd, token, &token.Token, string(token.Role)+" token of "+token.Name)
		}),
	}
	addChoice(cmd, "role", "what it may do", string(operators.RoleViewer), string(operators.RoleConnector),
		string(operators.RoleAdmin), string(operators.RoleServer))
	cmd.Flags().Duration("expires", 0, "ends after this long; 0 for never")
	addOutFlag(cmd)
	return cmd
}

func newAdminTokenListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "Admin tokens, without their secrets",
		Args:  exactArgs(),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, _ []string) error {
			tokens, err := client.AdminTokens(cmd.Context())
			if err != nil {
				return err
			}
			header := []string{"ID", "NAME", "ROLE", "MADE", "ENDS"}
			return showList(cmd, tokens, "No admin token.", header, func(t operators.AdminToken) []string {
				return []string{t.TokenID, t.Name, string(t.Role), date(t.CreatedAt), firstOf(dateOf(t.ExpiresAt), "never")}
			})
		}),
	}
}

func newAdminTokenRevokeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "revoke TOKEN-ID",
		Short: "End an admin token at once",
		Args:  exactArgs("the token's id (see ikhnos admin-token list)"),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, args []string) error {
			if err := ask(cmd, args[0], "Whoever uses this admin token can no longer administer."); err != nil {
				return err
			}
			if err := client.RevokeAdminToken(cmd.Context(), args[0]); err != nil {
				return err
			}
			return said(cmd, "revoked admin token "+args[0])
		}),
	}
	addConfirmFlags(cmd)
	return cmd
}

// newShowInitialCommand prints the token that the first start left in the data
// directory, on the server's own machine.
func newShowInitialCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show-initial",
		Short: "Print the admin token of the server's first start, on the server's machine",
		Args:  exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			path := filepath.Join(text(cmd, "data-dir"), "admin.token")
			content, err := os.ReadFile(path)
			if err != nil {
				return &explained{
					what: "the initial admin token cannot be read",
					why:  err.Error(),
					do:   "run this where the server runs, as its user, with its --data-dir",
					err:  err,
				}
			}
			if _, _, err := controlapi.ParseSecret(controlapi.SecretAdmin, string(content)); err != nil {
				return fmt.Errorf("reading %s: %w", path, err)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), strings.TrimSpace(string(content)))
			return err
		},
	}
	cmd.Flags().String("data-dir", "ikhnos-data", "directory of the server's data")
	return cmd
}
