// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"github.com/spf13/cobra"

	"github.com/ikhnos/continuum/control/cli/apiclient"
	"github.com/ikhnos/continuum/control/cli/fleet"
)

func newExportCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "export",
		Short: "Write the file that declares what the server has, for ikhnos apply",
		Long: `Write the file that declares clusters, operators and senders as the server has them.
ikhnos apply takes it and finds nothing to change. What is revoked is left out. No
secret is in it.`,
		Example: "  ikhnos export > fleet.yaml",
		Args:    exactArgs(),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, _ []string) error {
			state, _, err := readState(cmd, client)
			if err != nil {
				return err
			}
			document := fleet.Export(state)
			if text(cmd, "output") == formatJSON {
				return show(cmd, document, nil)
			}
			content, err := document.YAML()
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(content)
			return err
		}),
	}
}
