// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/ikhnos/continuum/control/cli/apiclient"
	"github.com/ikhnos/continuum/control/liveness"
)

// watchEvery is how often --watch looks again.
const watchEvery = 5 * time.Second

func newStatusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "What needs a person; exit code 10 when something does",
		Long: `What needs a person, the most urgent first, each with since when, why, and the command
that shows more; then the counts of everything. With nothing to do the exit code is 0,
else 10, so a script or a cron job may ask.`,
		Args: exactArgs(),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, _ []string) error {
			if text(cmd, "watch") == "true" {
				return watchStatus(cmd, client)
			}
			status, err := showStatus(cmd, client)
			if err == nil && len(status.Attention) > 0 {
				err = &exitError{code: exitFound}
			}
			return err
		}),
	}
	cmd.Flags().Bool("watch", false, "look again every few seconds, until interrupted")
	return cmd
}

func showStatus(cmd *cobra.Command, client *apiclient.Client) (*liveness.Summary, error) {
	status, err := client.Summary(cmd.Context())
	if err != nil {
		return nil, err
	}
	return status, show(cmd, status, statusText(status))
}

// watchStatus prints the status until the person has seen enough. A server that
// is away for a moment is told and tried again.
func watchStatus(cmd *cobra.Command, client *apiclient.Client) error {
	ticker := time.NewTicker(environmentOf(cmd).pollEvery(watchEvery))
	defer ticker.Stop()
	for {
		_, err := showStatus(cmd, client)
		if cmd.Context().Err() != nil {
			return nil
		}
		if err = fromServer(cmd, err); exitCode(err) == exitUnreachable {
			printError(cmd.ErrOrStderr(), err, cmd.CommandPath())
		} else if err != nil {
			return err
		}
		select {
		case <-cmd.Context().Done():
			return nil
		case <-ticker.C:
		}
	}
}
