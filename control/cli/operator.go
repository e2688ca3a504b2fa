// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/ikhnos/continuum/control/cli/apiclient"
	"github.com/ikhnos/continuum/control/cli/fleet"
	"github.com/ikhnos/continuum/control/liveness"
	"github.com/ikhnos/continuum/control/operators"
)

const theOperator = "the operator's id"

// heardTogether is how many operators are asked about at once.
const heardTogether = 8

func newOperatorCommand() *cobra.Command {
	return group("operator", "Regional and central operators: the collectors that receive from senders",
		newOperatorCreateCommand(), newOperatorListCommand(), newOperatorGetCommand(), newOperatorAddressCommand(),
		newOperatorHeartbeatCommand(), newOperatorInstallCommand(), newOperatorRetireCommand(), newOperatorRevokeCommand(), newOperatorDeleteCommand())
}

func newOperatorCreateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Make an operator with its own CA, and print how its collector enrols",
		Long: `Make an operator, a collector that receives from senders and knows each of them by its
certificate, and print how it enrols and runs: blocks to run or to paste, each headed
by where it belongs. Every block may be used twice; the tokens in them work once, for
one hour (ikhnos operator install prints all of it again with new ones). --format config prints a whole configuration for the collector.

A central operator writes to stores, a regional one sends on to a central one. One
central operator is enough to begin with. Its certificate has a name of its own,
so any address will do: tell it with ikhnos operator address ID HOST:PORT, and senders
are told to dial it there.`,
		Example: `  ikhnos operator create Central --role central --id op-central --heartbeat on
  ikhnos operator create "EU West" --destination op-central --label region=eu --heartbeat on
  ikhnos operator create Edge --destination op-central --format systemd --out-dir edge`,
		Args: exactArgs("a name"),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, args []string) error {
			if err := checkKeys(cmd); err != nil {
				return err
			}
			request, err := operatorRequest(cmd, args[0])
			if err != nil {
				return err
			}
			made, err := client.CreateOperator(cmd.Context(), request)
			if err != nil {
				return err
			}
			for _, warning := range made.Warnings {
				warn(cmd, "%s", warning)
			}
			if text(cmd, "output") != formatTable {
				return show(cmd, made, nil)
			}
			return showInstall(cmd, client, made)
		}),
	}
	cmd.Flags().String("id", "", "id, op-…; made from the name when left out")
	addChoice(cmd, "role", "where it stands", string(operators.RoleRegional), string(operators.RoleCentral))
	cmd.Flags().String("destination", "", "where it sends to: a central operator's id, or HOST:PORT")
	cmd.Flags().StringArray("label", nil, "label that is stamped on what passes it, NAME=VALUE (repeatable)")
	cmd.Flags().StringSlice("source", nil, "clusters to connect at once")
	addChoice(cmd, "heartbeat", "it tells that it is alive", string(operators.SwitchOff), string(operators.SwitchOn))
	addChoice(cmd, "exposure", "how far its Service reaches", string(operators.ExposureCluster),
		string(operators.ExposureNodePort), string(operators.ExposureLoadBalancer))
	addOperatorInstallFlags(cmd)
	addKeysFlag(cmd)
	return cmd
}

func operatorRequest(cmd *cobra.Command, name string) (operators.OperatorRequest, error) {
	pairs, _ := cmd.Flags().GetStringArray("label")
	labels, err := parseLabels(pairs)
	if err != nil {
		return operators.OperatorRequest{}, err
	}
	sources, _ := cmd.Flags().GetStringSlice("source")
	return operators.OperatorRequest{
		ID:               text(cmd, "id"),
		Name:             name,
		Role:             operators.OperatorRole(text(cmd, "role")),
		Destination:      fleet.ParseDestination(text(cmd, "destination")),
		Labels:           labels,
		SourceClusterIDs: sources,
		Heartbeat:        operators.Switch(text(cmd, "heartbeat")),
		Exposure:         operators.Exposure(text(cmd, "exposure")),
	}, nil
}

func destinationText(d *operators.Destination) string {
	if d == nil {
		return ""
	}
	return firstOf(d.OperatorID, d.Endpoint)
}

func newOperatorListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "Operators and whether they are heard",
		Args:  exactArgs(),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, _ []string) error {
			all, err := client.Operators(cmd.Context())
			if err != nil {
				return err
			}
			now := environmentOf(cmd).now()
			var heard map[string]time.Time
			if text(cmd, "output") == formatTable {
				if heard, err = lastHeard(cmd, client, all...); err != nil {
					return err
				}
			}
			header := []string{"ID", "NAME", "ROLE", "STATE", "LAST HEARD", "DESTINATION", "ADDRESS", "LABELS"}
			empty := "No operator yet. It receives telemetry from your clusters: ikhnos operator create NAME"
			return showList(cmd, all, empty, header, func(o operators.Operator) []string {
				return []string{o.ID, o.Name, string(o.Role), operatorWord(&o), until(heard[o.ID], now),
					destinationText(o.Destination), o.Address, labelsText(o.Labels)}
			})
		}),
	}
}

// lastHeard is when operators gave their last sign of life, a heartbeat or a report;
// those that never did are left out. Reports are asked for where there is no fresh
// heartbeat.
func lastHeard(cmd *cobra.Command, client *apiclient.Client, all ...operators.Operator) (map[string]time.Time, error) {
	var mu sync.Mutex
	heard, now := map[string]time.Time{}, environmentOf(cmd).now()
	group, ctx := errgroup.WithContext(cmd.Context())
	group.SetLimit(heardTogether)
	for i := range all {
		o := &all[i]
		var last time.Time
		if o.Health != nil && o.Health.LastSeenAt != nil {
			last = *o.Health.LastSeenAt
		}
		group.Go(func() error {
			if now.Sub(last) > liveness.OnlineFor {
				instances, err := client.Instances(ctx, o.ID)
				if err != nil {
					return err
				}
				for _, instance := range instances.Items {
					if instance.ReportedAt.After(last) {
						last = instance.ReportedAt
					}
				}
			}
			mu.Lock()
			defer mu.Unlock()
			heard[o.ID] = last
			return nil
		})
	}
	return heard, group.Wait()
}

// operatorWord is how an operator is, in the words of ikhnos status.
func operatorWord(o *operators.Operator) string {
	if o.Status != "" {
		return mark(o.Status)
	}
	if o.State != operators.OperatorActive || o.Health == nil {
		return string(o.State)
	}
	return o.Health.State
}

func newOperatorGetCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "get ID",
		Short: "One operator",
		Args:  exactArgs(theOperator),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, args []string) error {
			o, err := client.Operator(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if text(cmd, "output") != formatTable {
				return show(cmd, o, nil)
			}
			heard, err := lastHeard(cmd, client, *o)
			if err != nil {
				return err
			}
			writeOperator(cmd.OutOrStdout(), o, heard[o.ID])
			return nil
		}),
	}
}

func writeOperator(w io.Writer, o *operators.Operator, heard time.Time) {
	fields(w, "id", o.ID, "name", o.Name, "role", string(o.Role), "state", operatorWord(o), "last heard", firstOf(date(heard), "-"),
		"destination", destinationText(o.Destination),
		"senders dial", operatorAddress(o), "verified as", stableName(o.ID),
		"exposure", string(o.Exposure), "heartbeat", string(o.Heartbeat), "labels", labelsText(o.Labels),
		"sources", strings.Join(o.SourceClusterIDs, ", "), "created", date(o.CreatedAt), "revoked", dateOf(o.RevokedAt))
}
