// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ikhnos/continuum/internal/controlapi"
)

func newExplainCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "explain [REASON]",
		Short: "What a refusal means, and what to do; without a reason the list of all",
		Args:  cobra.MaximumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return reasonWords(controlapi.Explanations()), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			all := controlapi.Explanations()
			if len(args) == 0 {
				return showList(cmd, all, "", []string{"REASON", "MEANING"}, func(e controlapi.Explanation) []string {
					return []string{e.Reason, e.Meaning}
				})
			}
			for _, e := range all {
				if e.Reason == args[0] {
					return show(cmd, e, func(w io.Writer) { writeExplanation(w, e) })
				}
			}
			return &exitError{exitUsage, &explained{
				what: fmt.Sprintf("there is no reason %q%s", args[0], suggestion(args[0], reasonWords(all), "")),
				why:  "reasons are a closed list, and this word is not on it",
				do:   "ikhnos explain",
			}}
		},
	}
}

func writeExplanation(w io.Writer, e controlapi.Explanation) {
	_, _ = fmt.Fprintf(w, "%s: %s\n", e.Reason, e.Meaning)
	_, _ = fmt.Fprintf(w, "  from  %s\n", e.From)
	_, _ = fmt.Fprintf(w, "  data  %s\n", e.Data)
	_, _ = fmt.Fprintf(w, "  do    %s\n", e.Remedy)
	_, _ = fmt.Fprintf(w, "  seen  %s\n", e.Counted)
}

func reasonWords(all []controlapi.Explanation) []string {
	words := make([]string, len(all))
	for i, e := range all {
		words[i] = e.Reason
	}
	return words
}
