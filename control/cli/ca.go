// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ikhnos/continuum/control/api"
	"github.com/ikhnos/continuum/control/cli/apiclient"
)

func newCACommand() *cobra.Command {
	return group("ca", "The CAs of operators", newCAShowCommand())
}

func newCAShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show [OPERATOR]",
		Short: "The CA of an operator, with its certificate; without an operator, when each ends",
		Args:  cobra.MaximumNArgs(1),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, args []string) error {
			if len(args) == 1 {
				return showCA(cmd, client, args[0])
			}
			all, err := client.Operators(cmd.Context())
			if err != nil {
				return err
			}
			cas := make([]api.OperatorCA, len(all))
			for i := range all {
				ca, err := client.CA(cmd.Context(), all[i].ID)
				if err != nil {
					return err
				}
				cas[i] = *ca
			}
			now := environmentOf(cmd).now()
			header := []string{"OPERATOR", "ENDS", "KEY", "PIN"}
			return showList(cmd, cas, "No operator yet, so no CA.", header, func(ca api.OperatorCA) []string {
				return []string{ca.OperatorID, until(ca.NotAfter, now), keyWord(&ca), "sha256:" + ca.SPKI}
			})
		}),
	}
}

func showCA(cmd *cobra.Command, client *apiclient.Client, operatorID string) error {
	ca, err := client.CA(cmd.Context(), operatorID)
	if err != nil {
		return err
	}
	now := environmentOf(cmd).now()
	return show(cmd, ca, func(w io.Writer) {
		fields(w, "operator", ca.OperatorID, "valid", date(ca.NotBefore)+" to "+date(ca.NotAfter)+" ("+until(ca.NotAfter, now)+")",
			"key", keyWord(ca), "pin", "sha256:"+ca.SPKI)
		_, _ = fmt.Fprint(w, ca.Certificate)
	})
}

func keyWord(ca *api.OperatorCA) string {
	if ca.KeyErased {
		return "erased"
	}
	return "kept by the server"
}
