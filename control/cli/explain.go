// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ikhnos/continuum/internal/controlapi"
)

// explanation is what `ikhnos explain` knows of a reason.
type explanation struct {
	Reason  string `json:"reason"`
	Meaning string `json:"meaning"`
	From    string `json:"from"`
	Data    string `json:"data"`
	Remedy  string `json:"remedy"`
}

func newExplainCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "explain [REASON]",
		Short: "What a refusal means, and what to do; without a reason the list of all",
		Args:  cobra.MaximumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return reasonWords(explanations()), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			all := explanations()
			if len(args) == 0 {
				return showList(cmd, all, "", []string{"REASON", "MEANING"}, func(e explanation) []string {
					return []string{e.Reason, e.Meaning}
				})
			}
			for _, e := range all {
				if e.Reason == args[0] {
					return show(cmd, e, func(w io.Writer) { writeExplanation(w, e) })
				}
			}
			return usageError("there is no reason %q%s", args[0], suggestion(args[0], reasonWords(all), ""))
		},
	}
}

func writeExplanation(w io.Writer, e explanation) {
	_, _ = fmt.Fprintf(w, "%s: %s\n", e.Reason, e.Meaning)
	_, _ = fmt.Fprintf(w, "  from  %s\n", e.From)
	_, _ = fmt.Fprintf(w, "  data  %s\n", e.Data)
	_, _ = fmt.Fprintf(w, "  do    %s\n", e.Remedy)
}

// explanations lists every reason once, sorted by its word. A reason that the
// control server and an operator share stands with what the operator does,
// because that is where data is at stake.
func explanations() []explanation {
	all := slices.Clone(dataPlaneReasons)
	for reason, info := range controlapi.Reasons() {
		again := "asking again does not help"
		if info.Retryable {
			again = "asking again may help"
		}
		i := slices.IndexFunc(all, func(e explanation) bool { return e.Reason == string(reason) })
		if i >= 0 {
			all[i].From += fmt.Sprintf("; and the control server, status %d", info.Status)
			continue
		}
		all = append(all, explanation{
			Reason:  string(reason),
			Meaning: info.Title,
			From:    fmt.Sprintf("the control server, status %d; %s", info.Status, again),
			Data:    "not touched: the control server never sees telemetry",
			Remedy:  info.Remedy,
		})
	}
	slices.SortFunc(all, func(a, b explanation) int { return strings.Compare(a.Reason, b.Reason) })
	return all
}

func reasonWords(all []explanation) []string {
	words := make([]string, len(all))
	for i, e := range all {
		words[i] = e.Reason
	}
	return words
}
