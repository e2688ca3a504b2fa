// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/ikhnos/continuum/control/audit"
	"github.com/ikhnos/continuum/control/operators"
)

// reset is what `admin-token reset` prints.
type reset struct {
	TokenID string `json:"tokenId"`
	File    string `json:"file"`
	Ended   int    `json:"ended"` // tokens of role server that were there before
}

// newAdminTokenResetCommand is for those who have lost every token: who may write
// the server's data is its administrator.
func newAdminTokenResetCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reset",
		Short: "Make a new first admin token, on the server's machine while no server runs",
		Long: `Make a new admin token of role server, for when every one is lost or the first one
has leaked. It is written to --out, mode 0600; every earlier token of that role ends,
the others stay. Run it where the server runs, as its user, while no server runs.`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error { return resetAdminToken(cmd) },
	}
	addStoreFlags(cmd.Flags())
	addConfirmFlags(cmd)
	cmd.Flags().String("out", "", "file for the token (default admin.token in the data directory)")
	return cmd
}

func resetAdminToken(cmd *cobra.Command) (err error) {
	if err := ask(cmd, "reset", "Every admin token of role server ends, and a new one is made."); err != nil {
		return err
	}
	store, err := takeStore(cmd)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	made := reset{File: firstOf(text(cmd, "out"), filepath.Join(text(cmd, "data-dir"), adminTokenFile))}
	ops := operators.New(operators.Config{Store: store, Now: environmentOf(cmd).now})
	if made.TokenID, made.Ended, err = renewServerToken(cmd.Context(), ops, made.File); err != nil {
		return err
	}
	return show(cmd, made, func(w io.Writer) {
		_, _ = fmt.Fprintf(w, "a new admin token of role server is in %s; %s ended\nstart the server, then: ikhnos login --token-file %s\n",
			made.File, count(made.Ended, "earlier token"), shellWord(made.File))
	})
}

// renewServerToken makes a token of role server and writes it to path before the
// earlier ones end, so that a crash in between locks nobody out.
func renewServerToken(ctx context.Context, ops *operators.Service, path string) (id string, ended int, err error) {
	actor := operators.Actor{OrgID: operators.DefaultOrg, Name: audit.ActorServer, Role: operators.RoleServer}
	var earlier []string
	for page := (operators.Page{}); ; {
		list, err := ops.ListAdminTokens(ctx, actor, page)
		if err != nil {
			return "", 0, err
		}
		for _, token := range list.Items {
			if token.Role == operators.RoleServer {
				earlier = append(earlier, token.TokenID)
			}
		}
		if page.Cursor = list.NextCursor; page.Cursor == "" {
			break
		}
	}
	token, err := ops.CreateAdminToken(ctx, actor, operators.AdminTokenRequest{Name: "reset", Role: operators.RoleServer})
	if err != nil {
		return "", 0, err
	}
	if err := writeSecretFile(path, []byte(token.Token+"\n")); err != nil {
		_ = ops.RevokeAdminToken(ctx, actor, token.TokenID) // the error of the file says more
		return "", 0, &explained{what: "the token could not be kept, so nothing was changed", why: err.Error(), do: "choose another file: --out", err: err}
	}
	for _, old := range earlier {
		if err := ops.RevokeAdminToken(ctx, actor, old); err != nil {
			return "", 0, err
		}
	}
	return token.TokenID, len(earlier), nil
}
