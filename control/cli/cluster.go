// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ikhnos/continuum/control/cli/apiclient"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
)

const theCluster = "the cluster's id"

func newClusterCommand() *cobra.Command {
	return group("cluster", "Clusters and hosts that may become senders",
		newClusterAddCommand(), newClusterListCommand(), newClusterGetCommand(), newClusterApproveCommand(),
		newClusterSetCommand(), newClusterRevokeCommand(), newClusterDeleteCommand())
}

func addClusterFlags(cmd *cobra.Command) {
	addChoice(cmd, "kind", "what it is", string(operators.ClusterKubernetes), string(operators.ClusterHost))
	cmd.Flags().StringArray("label", nil, "label that is stamped on its data, NAME=VALUE (repeatable)")
	cmd.Flags().String("tenant", "", "tenant of its data, ACCOUNT:PROJECT")
	cmd.Flags().Duration("silent-after", 0, "quiet for longer than this counts as silent (default 5m)")
}

func newClusterAddCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "add ID",
		Short: "Register a cluster; it waits for approval",
		Long: `Register a cluster, or a host, that will send. It waits until somebody approves it
(ikhnos cluster approve, or --approve at once); then ikhnos sender connect lets it
send to an operator. Its labels are stamped on its data, whatever it says itself.`,
		Example: "  ikhnos cluster add c1 --label env=prod --tenant 5:6 --approve\n  ikhnos cluster add web-3 --kind host --approve",
		Args:    exactArgs(theCluster),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, args []string) error {
			request := operators.ClusterRequest{ID: args[0]}
			if err := applyClusterFlags(cmd, &request); err != nil {
				return err
			}
			cluster, err := client.CreateCluster(cmd.Context(), request)
			if err != nil {
				return err
			}
			if text(cmd, "approve") == "true" {
				if cluster, err = client.ApproveCluster(cmd.Context(), args[0]); err != nil {
					return err
				}
			}
			return showClusterChange(cmd, cluster, "registered")
		}),
	}
	addClusterFlags(cmd)
	cmd.Flags().Bool("approve", false, "approve it at once")
	return cmd
}

func newClusterSetCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "set ID",
		Short: "Change labels, tenant or silent-after; what is not given stays",
		Args:  exactArgs(theCluster),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, args []string) error {
			now, err := client.Cluster(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			request := operators.ClusterRequest{
				Kind: now.Kind, Labels: now.Labels, Tenant: now.Tenant, SilentAfter: now.SilentAfter,
			}
			if err := applyClusterFlags(cmd, &request); err != nil {
				return err
			}
			unset, _ := cmd.Flags().GetStringArray("unset-label")
			for _, name := range unset {
				delete(request.Labels, name)
			}
			cluster, err := client.PutCluster(cmd.Context(), args[0], request)
			if err != nil {
				return err
			}
			return showClusterChange(cmd, cluster, "set")
		}),
	}
	addClusterFlags(cmd)
	cmd.Flags().StringArray("unset-label", nil, "label to take away (repeatable)")
	return cmd
}

// applyClusterFlags puts the flags that were given over what r holds.
func applyClusterFlags(cmd *cobra.Command, r *operators.ClusterRequest) error {
	if isSet(cmd, "kind") || r.Kind == "" {
		r.Kind = operators.ClusterKind(text(cmd, "kind"))
	}
	pairs, _ := cmd.Flags().GetStringArray("label")
	labels, err := parseLabels(pairs)
	if err != nil {
		return err
	}
	if r.Labels == nil {
		r.Labels = map[string]string{}
	}
	maps.Copy(r.Labels, labels)
	if isSet(cmd, "tenant") {
		if r.Tenant, err = parseTenant(text(cmd, "tenant")); err != nil {
			return err
		}
	}
	if isSet(cmd, "silent-after") {
		r.SilentAfter = text(cmd, "silent-after")
	}
	return nil
}

// parseTenant reads ACCOUNT:PROJECT; nothing means no tenant.
func parseTenant(s string) (*controlapi.Tenant, error) {
	if s == "" {
		return nil, nil
	}
	account, project, ok := strings.Cut(s, ":")
	a, errA := strconv.ParseUint(account, 10, 32)
	p, errP := strconv.ParseUint(project, 10, 32)
	if !ok || errA != nil || errP != nil {
		return nil, usageError("--tenant takes ACCOUNT:PROJECT, two numbers, not %q", s)
	}
	return &controlapi.Tenant{Account: uint32(a), Project: uint32(p)}, nil
}

func newClusterListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "Registered clusters",
		Args:  exactArgs(),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, _ []string) error {
			clusters, err := client.Clusters(cmd.Context())
			if err != nil {
				return err
			}
			header := []string{"ID", "KIND", "STATE", "LABELS", "SILENT AFTER", "APPROVED BY"}
			return showList(cmd, clusters, "No cluster yet: ikhnos cluster add ID", header, func(c operators.Cluster) []string {
				return []string{c.ID, string(c.Kind), string(c.State), labelsText(c.Labels), c.SilentAfter, c.ApprovedBy}
			})
		}),
	}
}

func newClusterGetCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "get ID",
		Short: "One cluster",
		Args:  exactArgs(theCluster),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, args []string) error {
			c, err := client.Cluster(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			tenant := ""
			if c.Tenant != nil {
				tenant = fmt.Sprintf("%d:%d", c.Tenant.Account, c.Tenant.Project)
			}
			return show(cmd, c, func(w io.Writer) {
				fields(w, "id", c.ID, "kind", string(c.Kind), "state", string(c.State), "labels", labelsText(c.Labels),
					"tenant", tenant, "silent after", c.SilentAfter,
					"registered", by(date(c.CreatedAt), c.CreatedBy), "approved", by(dateOf(c.ApprovedAt), c.ApprovedBy))
			})
		}),
	}
}

// by is a time with who did it.
func by(when, who string) string {
	if when == "" || who == "" {
		return when
	}
	return when + " by " + who
}

func newClusterApproveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "approve ID",
		Short: "Let a registered cluster be connected",
		Args:  exactArgs(theCluster),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, args []string) error {
			cluster, err := client.ApproveCluster(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return showClusterChange(cmd, cluster, "approved")
		}),
	}
}

func newClusterRevokeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "revoke ID",
		Short: "Cut a cluster off at every operator it sends to",
		Long: `Cut a cluster off at every operator it sends to. ikhnos cluster approve allows it
again, and ikhnos sender restore each of its connections. At a terminal the id has to be typed
once more.`,
		Args: exactArgs(theCluster),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, args []string) error {
			if err := ask(cmd, args[0], "This cuts "+args[0]+" off everywhere; what it sends from now on is dropped."); err != nil {
				return err
			}
			receipt, err := client.RevokeCluster(cmd.Context(), args[0], text(cmd, "note"), waitOf(cmd))
			if err != nil {
				return err
			}
			return showReceipt(cmd, receipt, "cut off "+args[0]+" everywhere")
		}),
	}
	addRevokeFlags(cmd)
	addConfirmFlags(cmd)
	return cmd
}

func newClusterDeleteCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "delete ID",
		Short: "Revoke a cluster and take it off the list",
		Long: `Revoke a cluster and take it off the list. Its id is free again when its last
certificate has ended. At a terminal the id has to be typed once more.`,
		Args: exactArgs(theCluster),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, args []string) error {
			if err := ask(cmd, args[0], "This cuts "+args[0]+" off everywhere and deletes it."); err != nil {
				return err
			}
			receipt, err := client.DeleteCluster(cmd.Context(), args[0], waitOf(cmd))
			if err != nil {
				return err
			}
			return showReceipt(cmd, receipt, "deleted "+args[0])
		}),
	}
	addWaitFlag(cmd)
	addConfirmFlags(cmd)
	return cmd
}

func showClusterChange(cmd *cobra.Command, c *operators.Cluster, verb string) error {
	return show(cmd, c, func(w io.Writer) {
		_, _ = fmt.Fprintf(w, "%s %s: %s\n", verb, c.ID, c.State)
		if c.State == operators.ClusterPending {
			progress(cmd, "next: ikhnos cluster approve %s", c.ID)
		}
	})
}

// said prints the one line of a command whose answer has no document.
func said(cmd *cobra.Command, line string) error {
	if text(cmd, "output") != formatTable {
		return nil
	}
	_, err := fmt.Fprintln(cmd.OutOrStdout(), line)
	return err
}
