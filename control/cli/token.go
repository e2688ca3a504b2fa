// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"github.com/spf13/cobra"

	"github.com/ikhnos/continuum/control/cli/apiclient"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
)

func newTokenCommand() *cobra.Command {
	return group("token", "One-use enrolment tokens",
		newTokenCreateCommand(), newTokenListCommand(), newTokenRevokeCommand())
}

func newTokenCreateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make a one-use token; an earlier one for the same certificate dies",
		Args:  exactArgs(),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, _ []string) error {
			operatorID, sender := text(cmd, "operator"), text(cmd, "sender")
			role := enrollmentRole(sender)
			if isSet(cmd, "role") && text(cmd, "role") != string(role) {
				return usageError("--role sender goes with --sender ID, --role receiver without")
			}
			ttl, _ := cmd.Flags().GetDuration("ttl")
			token, err := client.CreateToken(cmd.Context(), operatorID, role, sender, ttl)
			if isReason(err, controlapi.ReasonNotFound) && sender != "" {
				return notConnected(sender, operatorID, err)
			}
			if err != nil {
				return err
			}
			return deliver(cmd, token, &token.Token, "one-use token of "+token.Name+", until "+date(token.ExpiresAt))
		}),
	}
	addOperatorFlag(cmd)
	addChoice(cmd, "role", "whose certificate", string(controlapi.RoleReceiver), string(controlapi.RoleSender))
	cmd.Flags().String("sender", "", "cluster or operator that will send; without it the token is for the operator's receiver")
	addTTLFlag(cmd)
	addOutFlag(cmd)
	return cmd
}

// notConnected explains the not_found of a call on a connection.
func notConnected(sender, operatorID string, err error) error {
	return &explained{
		what:   sender + " is not connected to " + operatorID,
		reason: controlapi.ReasonNotFound,
		why:    "a token is made for a connection, and there is none yet",
		do:     "ikhnos sender connect " + sender + " --operator " + operatorID,
		err:    err,
	}
}

func newTokenListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Enrolment tokens of an operator, without their secrets",
		Args:  exactArgs(),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, _ []string) error {
			tokens, err := client.Tokens(cmd.Context(), text(cmd, "operator"))
			if err != nil {
				return err
			}
			now := environmentOf(cmd).now()
			header := []string{"ID", "FOR", "ROLE", "STATE", "ENDS", "MADE BY"}
			return showList(cmd, tokens, "No enrolment token.", header, func(t operators.Token) []string {
				return []string{t.TokenID, t.Name, string(t.Role), string(t.State), until(t.ExpiresAt, now), t.CreatedBy}
			})
		}),
	}
	addOperatorFlag(cmd)
	return cmd
}

func newTokenRevokeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "revoke TOKEN-ID",
		Short: "End a token before it is used",
		Args:  exactArgs("the token's id (see ikhnos token list)"),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, args []string) error {
			if err := client.RevokeToken(cmd.Context(), text(cmd, "operator"), args[0]); err != nil {
				return err
			}
			return said(cmd, "revoked token "+args[0])
		}),
	}
	addOperatorFlag(cmd)
	return cmd
}
