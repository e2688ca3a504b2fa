// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ikhnos/continuum/control/cli/checkconfig"
)

func newCheckCommand() *cobra.Command {
	return group("check", "Review files before they are used", newCheckConfigCommand())
}

func newCheckConfigCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "config FILE...",
		Short: "Review collector configurations, offline; exit code 10 when there is something to mend",
		Long: `Review the configurations of collectors, stock ones too: what lets data pass without
a verified sender, breaks at the first renewal, or loses data while the next hop is
away. Each finding names file and line, what is wrong, why it matters and how to
mend it, and has an id that never changes.

A file holds a whole configuration, or an OpenTelemetryCollector of the OpenTelemetry
operator; - is standard input. References to the environment count as their defaults
(${env:NAME:-default}); what has none is not judged. Nothing is sent anywhere, and no
server is needed.`,
		Example: "  ikhnos check config collector.yaml\n  kubectl get configmap op-eu -o jsonpath='{.data.config\\.yaml}' | ikhnos check config -",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError("%s needs a file", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			findings := []checkconfig.Finding{}
			for _, path := range args {
				content, err := readInput(cmd, path)
				if err != nil {
					return err
				}
				findings = append(findings, checkconfig.Check(path, content)...)
			}
			err := show(cmd, document[checkconfig.Finding]{findings}, func(w io.Writer) { writeFindings(w, findings, len(args)) })
			if err == nil && len(findings) > 0 {
				err = &exitError{code: exitFound}
			}
			return err
		},
	}
}

func writeFindings(w io.Writer, findings []checkconfig.Finding, files int) {
	for _, f := range findings {
		_, _ = fmt.Fprintf(w, "%s:%d: %s: %s\n  why   %s\n  fix   %s\n", plain(f.File), f.Line, f.Rule, plain(f.What), plain(f.Why), plain(f.Fix))
	}
	if len(findings) == 0 {
		_, _ = fmt.Fprintf(w, "nothing to mend in %s\n", count(files, "file"))
		return
	}
	_, _ = fmt.Fprintf(w, "%s in %s\n", count(len(findings), "finding"), count(files, "file"))
}
