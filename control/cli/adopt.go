// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ikhnos/continuum/control/cli/apiclient"
	"github.com/ikhnos/continuum/control/operators"
)

func newCertAdoptCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "adopt",
		Short: "After a restore: admit certificates that our CAs signed and the ledger lacks",
		Long: `Admit certificates that were issued after the backup which was restored: our CAs
signed them, the ledger lacks them, and their holders have shown them to this
server since. A sender that was connected after the backup is connected again.
What an operator denied before the restore is never admitted.`,
		Args: exactArgs(),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, _ []string) error {
			after, err := parsePast("issued-after", text(cmd, "issued-after"), environmentOf(cmd).now())
			if err != nil {
				return err
			}
			mode := operators.AdoptNow
			if text(cmd, "dry-run") == "true" {
				mode = operators.AdoptDryRun
			}
			answer, err := client.AdoptCertificates(cmd.Context(), after, mode)
			if err != nil {
				return err
			}
			return showAdoptions(cmd, answer)
		}),
	}
	cmd.Flags().String("issued-after", "", "issued in this time (30d, 12h) or since an RFC 3339 time: that of the backup")
	cmd.Flags().Bool("dry-run", false, "tell what would be done and do nothing")
	_ = cmd.MarkFlagRequired("issued-after") // fails only for a flag that is not there
	return cmd
}

// showAdoptions prints a line for each certificate, then how many of each result.
func showAdoptions(cmd *cobra.Command, answer *operators.Adoptions) error {
	adopted := 0
	header := []string{"OPERATOR", "HOLDER", "ROLE", "ISSUED", "SERIAL", "RESULT", "NOTE"}
	err := showList(cmd, answer.Items, "No certificate to adopt: none was shown to this server that it does not know.", header, func(a operators.Adoption) []string {
		if a.Result == operators.AdoptResultAdopted {
			adopted++
		}
		return []string{a.OperatorID, a.Holder, string(a.Role), date(a.IssuedAt), a.Serial, string(a.Result), a.Note}
	})
	if err != nil || len(answer.Items) == 0 || text(cmd, "output") != formatTable {
		return err
	}
	line := fmt.Sprintf("%s adopted, %d left", count(adopted, "certificate"), len(answer.Items)-adopted)
	if answer.Mode == operators.AdoptDryRun {
		line += " (dry run: nothing was changed)"
	}
	return said(cmd, line)
}
