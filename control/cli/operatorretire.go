// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ikhnos/continuum/control/cli/apiclient"
	"github.com/ikhnos/continuum/control/liveness"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// retireStep is one step of an operator's leave: commands, or what a person does.
type retireStep struct {
	Title    string   `json:"title"`
	Where    string   `json:"where"`
	Commands []string `json:"commands"`
}

const onAdminMachine = "where ikhnos is logged in"

func newOperatorRetireCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "retire ID",
		Short: "Show, in order, how an operator leaves without a loss of data; changes nothing",
		Long: `Show, in order, how an operator leaves without a loss of data: its senders move to
another operator first, then what it holds drains, then it is revoked and taken away.
Nothing is changed. --to names the operator that takes its senders. With --format
shell the steps are a script to read and to run part by part.`,
		Example: "  ikhnos operator retire op-old --to op-new",
		Args:    exactArgs(theOperator),
		RunE: withClient(func(cmd *cobra.Command, client *apiclient.Client, args []string) error {
			o, err := client.Operator(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			to := text(cmd, "to")
			if to == o.ID {
				return usageError("--to %s is the operator that leaves", to)
			}
			if to != "" {
				if _, err := client.Operator(cmd.Context(), to); err != nil {
					return err
				}
			}
			senders, err := client.OperatorSenders(cmd.Context(), o.ID)
			if err != nil {
				return err
			}
			steps := retireSteps(o, senders, to)
			return show(cmd, document[retireStep]{steps}, func(w io.Writer) { writeSteps(w, steps, text(cmd, "format") == "shell") })
		}),
	}
	cmd.Flags().String("to", "", "the operator that takes its senders")
	addChoice(cmd, "format", "form of the steps", "text", "shell")
	return cmd
}

func retireSteps(o *operators.Operator, senders []liveness.SenderStatus, to string) []retireStep {
	var steps []retireStep
	heir := firstOf(to, "OTHER")
	clusters, relays := 0, 0
	move := retireStep{Title: "connect its clusters to " + heir + " and run what each prints where the cluster's collector runs", Where: onAdminMachine}
	arrive := retireStep{Title: "wait until their data arrives there; until then they send to both or to " + o.ID, Where: onAdminMachine}
	cut := retireStep{Title: "take the exporter to " + o.ID + " out of each cluster's collector, then end its right to send", Where: onAdminMachine}
	replace := retireStep{Title: "operators that send to it cannot be turned: make a new one for each, and retire the old one the same way", Where: onAdminMachine}
	for i := range senders {
		s := &senders[i]
		switch {
		case s.State == controlapi.SenderRevoked:
		case s.Kind == controlapi.KindOperator:
			relays++
			replace.Commands = append(replace.Commands,
				shellWords("ikhnos", "operator", "create", "NAME", "--destination", heir), shellWords("ikhnos", "operator", "retire", s.HolderID))
		default:
			clusters++
			move.Commands = append(move.Commands, shellWords("ikhnos", "sender", "connect", s.HolderID, "--operator", heir))
			arrive.Commands = append(arrive.Commands, shellWords("ikhnos", "sender", "wait", s.HolderID, "--operator", heir))
			cut.Commands = append(cut.Commands, shellWords("ikhnos", "sender", "revoke", s.HolderID, "--operator", o.ID, "--reason", "retired"))
		}
	}
	if relays > 0 {
		steps = append(steps, replace)
	}
	if clusters > 0 {
		steps = append(steps, move, arrive, cut)
	}
	if o.State == operators.OperatorActive {
		steps = append(steps, retireStep{
			Title: "wait until its queue is empty: the metric otelcol_exporter_queue_size of its collector is 0", Where: "where the operator runs",
		}, retireStep{
			Title: "end it: everyone is denied and its CA key is erased", Where: onAdminMachine,
			Commands: []string{shellWords("ikhnos", "operator", "revoke", o.ID, "--confirm", o.ID)},
		})
	}
	return append(steps, retireStep{
		Title: "take its collector away (on a machine without Kubernetes: stop it, and remove its folders below /var/lib/continuum and /etc/continuum)",
		Where: "in the operator's cluster", Commands: []string{shellWords("helm", "uninstall", o.ID, "--namespace", "continuum-system")},
	}, retireStep{
		Title: "take it off the lists; its ledger stays", Where: onAdminMachine,
		Commands: []string{shellWords("ikhnos", "operator", "delete", o.ID, "--confirm", o.ID)},
	})
}

func writeSteps(w io.Writer, steps []retireStep, shell bool) {
	before, indent := "", "     "
	if shell {
		before, indent = "# ", ""
	}
	for i, step := range steps {
		_, _ = fmt.Fprintf(w, "%s%d. %s (%s)\n", before, i+1, plain(step.Title), step.Where)
		for _, command := range step.Commands {
			_, _ = fmt.Fprintf(w, "%s%s\n", indent, plain(command))
		}
	}
}
