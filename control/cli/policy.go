// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"github.com/spf13/cobra"

	"github.com/ikhnos/continuum/control/cli/apiclient"
	"github.com/ikhnos/continuum/control/liveness"
)

func newPolicyCommand() *cobra.Command {
	return group("policy", "What an operator enforces", &cobra.Command{
		Use:   "get OPERATOR",
		Short: "Whom an operator accepts and denies, and what it reported of them",
		Args:  exactArgs(theOperator),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, args []string) error {
			senders, err := client.OperatorSenders(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			now := environmentOf(cmd).now()
			header := []string{"NAME", "KIND", "DECIDED", "STATE", "LAST ACCEPTED", "RECEIPT"}
			return showList(cmd, senders, args[0]+" accepts nobody.", header, func(s liveness.SenderStatus) []string {
				return []string{s.Name, string(s.Kind), string(s.State), mark(s.Status), untilOf(s.LastAcceptedAt, now), s.ReceiptID}
			})
		}),
	})
}
