// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/ikhnos/continuum/control/cli/apiclient"
	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/liveness"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// watchEvery is how often --watch looks again.
const watchEvery = 5 * time.Second

// fleetStatus is the server's summary with what `ikhnos status` adds to it: the
// receivers whose renewal is overdue, and the server's version.
type fleetStatus struct {
	*liveness.Summary
	Receivers []ledger.Entry `json:"receiversOverdue"`
	Server    string         `json:"serverVersion"`
}

// needsSomebody reports whether there is anything for a person to do.
func (f *fleetStatus) needsSomebody() bool {
	return len(f.Attention) > 0 || len(f.Receivers) > 0 || f.Clusters[pendingClusters] > 0
}

func newStatusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "What needs a person; exit code 10 when something does",
		Args:  exactArgs(),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, _ []string) error {
			if text(cmd, "watch") == "true" {
				return watchStatus(cmd, client)
			}
			status, err := showStatus(cmd, client)
			if err == nil && status.needsSomebody() {
				err = &exitError{code: exitFound}
			}
			return err
		}),
	}
	cmd.Flags().Bool("watch", false, "look again every few seconds, until interrupted")
	return cmd
}

func showStatus(cmd *cobra.Command, client *apiclient.Client) (*fleetStatus, error) {
	status, err := readStatus(cmd, client)
	if err != nil {
		return nil, err
	}
	return status, show(cmd, status, statusText(status, environmentOf(cmd).now()))
}

func readStatus(cmd *cobra.Command, client *apiclient.Client) (*fleetStatus, error) {
	summary, err := client.Summary(cmd.Context())
	if err != nil {
		return nil, err
	}
	receivers, err := client.Certificates(cmd.Context(), apiclient.CertificateFilter{Role: controlapi.RoleReceiver, Newest: true})
	if err != nil {
		return nil, err
	}
	server, err := client.ServerVersion(cmd.Context())
	return &fleetStatus{summary, overdue(receivers, environmentOf(cmd).now()), server}, err
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
		if err = fromServer(err); exitCode(err) == exitUnreachable {
			printError(cmd.ErrOrStderr(), err)
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
