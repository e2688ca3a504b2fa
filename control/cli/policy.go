// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ikhnos/continuum/control/api"
	"github.com/ikhnos/continuum/control/cli/apiclient"
	"github.com/ikhnos/continuum/control/liveness"
	"github.com/ikhnos/continuum/internal/controlapi"
)

func newPolicyCommand() *cobra.Command {
	return group("policy", "What an operator enforces", newPolicyGetCommand())
}

// enforced is what `policy get` prints for other programs.
type enforced struct {
	*api.OperatorInstances
	Senders []liveness.SenderStatus `json:"senders"`
}

func newPolicyGetCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get OPERATOR",
		Short: "Whom an operator accepts and denies, and which instance enforces which version",
		Long: `Whom an operator accepts and denies by the server's word, and which version of that
each of its instances enforces, by its last report. --diff shows only what instances
do not enforce yet; its exit code is 10 when there is something.`,
		Args: exactArgs(theOperator),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, args []string) error {
			instances, err := client.Instances(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if text(cmd, "diff") == "true" {
				return showPolicyDiff(cmd, args[0], instances)
			}
			senders, err := client.OperatorSenders(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return show(cmd, enforced{instances, senders}, func(w io.Writer) { writePolicy(cmd, w, args[0], instances, senders) })
		}),
	}
	cmd.Flags().Bool("diff", false, "only what an instance does not enforce yet")
	return cmd
}

func versionText(v controlapi.Version) string { return fmt.Sprintf("%d.%d", v.Epoch, v.Number) }

func writePolicy(cmd *cobra.Command, w io.Writer, operatorID string, instances *api.OperatorInstances, senders []liveness.SenderStatus) {
	now := environmentOf(cmd).now()
	_, _ = fmt.Fprintf(w, "policy %s of %s\n", versionText(instances.Policy), operatorID)
	rows := [][]string{{"INSTANCE", "ENFORCES", "SINCE", "REPORTED", "VERSION"}}
	for _, i := range instances.Items {
		enforces := versionText(i.Policy.Version)
		if !i.Current {
			enforces += ", not the present one"
		}
		rows = append(rows, []string{shortInstance(i.Instance), enforces, date(i.Policy.AppliedAt), until(i.ReportedAt, now), i.Version})
	}
	if len(instances.Items) == 0 {
		_, _ = fmt.Fprintln(w, "No instance has reported.")
	} else {
		writeTable(w, rows)
	}
	rows = [][]string{{"NAME", "KIND", "DECIDED", "STATE", "LAST ACCEPTED", "RECEIPT"}}
	for _, s := range senders {
		rows = append(rows, []string{s.Name, string(s.Kind), string(s.State), mark(s.Status), untilOf(s.LastAcceptedAt, now), s.ReceiptID})
	}
	if len(senders) == 0 {
		_, _ = fmt.Fprintf(w, "\n%s accepts nobody.\n", operatorID)
		return
	}
	_, _ = fmt.Fprintln(w)
	writeTable(w, rows)
}

// showPolicyDiff prints what instances do not enforce yet.
func showPolicyDiff(cmd *cobra.Command, operatorID string, instances *api.OperatorInstances) error {
	late := *instances
	late.Items = []api.OperatorInstance{}
	for _, i := range instances.Items {
		if !i.Current {
			late.Items = append(late.Items, i)
		}
	}
	now := environmentOf(cmd).now()
	err := show(cmd, late, func(w io.Writer) {
		for _, i := range late.Items {
			_, _ = fmt.Fprintf(w, "%s / %s enforces %s instead of %s, reported %s\n", operatorID, shortInstance(i.Instance),
				versionText(i.Policy.Version), versionText(late.Policy), until(i.ReportedAt, now))
			for _, m := range i.Missing {
				_, _ = fmt.Fprintf(w, "  %s  %s since %s\n", m.Name, m.State, versionText(m.Since))
			}
		}
		switch {
		case len(instances.Items) == 0:
			_, _ = fmt.Fprintln(w, "No instance has reported.")
		case len(late.Items) == 0:
			_, _ = fmt.Fprintf(w, "every instance of %s enforces %s\n", operatorID, versionText(late.Policy))
		}
	})
	if err == nil && len(late.Items) > 0 {
		err = &exitError{code: exitFound}
	}
	return err
}
