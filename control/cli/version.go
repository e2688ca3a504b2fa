// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/ikhnos/continuum/control/cli/apiclient"
	"github.com/ikhnos/continuum/internal/version"
)

// versions are of this program and, when asked for, of the server.
type versions struct {
	Client string `json:"client"`
	Server string `json:"server,omitempty"`
}

func newVersionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Version of this program; with --check of the server too",
		Args:  exactArgs(),
		RunE: func(cmd *cobra.Command, args []string) error {
			found := versions{Client: version.Version}
			if text(cmd, "check") != "true" {
				return showVersions(cmd, found)
			}
			return withClient(func(cmd *cobra.Command, client *apiclient.Client, _ []string) (err error) {
				if found.Server, err = client.ServerVersion(cmd.Context()); err != nil {
					return err
				}
				if err := showVersions(cmd, found); err != nil || found.Server == found.Client {
					return err
				}
				warn(cmd, "server and client are not of one version")
				return &exitError{code: exitFound}
			})(cmd, args)
		},
	}
	cmd.Flags().Bool("check", false, "ask the server for its version; exit code 10 when it differs")
	return cmd
}

func showVersions(cmd *cobra.Command, found versions) error {
	return show(cmd, found, func(w io.Writer) { fields(w, "ikhnos", found.Client, "server", found.Server) })
}
