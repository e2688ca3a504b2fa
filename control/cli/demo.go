// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/ikhnos/continuum/control/cli/demo"
)

// newDemoCommand runs the main job on loopback and tells what happens.
func newDemoCommand() *cobra.Command {
	o := demo.Options{Now: time.Now}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run the whole loop on this machine: server, operators, clusters, a forgery, a renewal, a cut-off",
		Long: `Starts a control server, a central operator, a regional operator and two cluster
collectors as processes on loopback, joined through the real API and sending this
host's metrics, logs and the server's own traces. It tells who enrolled, what
arrived with which verified identity, what became of a forged record, one renewal
and one cut-off. It needs no root, and it removes its state when it ends.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			self, err := os.Executable()
			if err != nil {
				return fmt.Errorf("finding this program: %w", err)
			}
			o.Ikhnos, o.Out = self, cmd.OutOrStdout()
			if o.Collector == "" {
				o.Collector = filepath.Join(filepath.Dir(self), "continuum-collector")
			}
			if _, err := os.Stat(o.Collector); err != nil {
				return fmt.Errorf("the collector is not at %s: run `make build`, or name it with --collector", o.Collector)
			}
			return demo.Run(ctx, o)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.Once, "once", false, "end after the story; exit 1 if a check failed")
	flags.BoolVar(&o.Keep, "keep", false, "leave the state folder")
	flags.IntVar(&o.PortBase, "port-base", 14300, "first of the ports used while they are free; taken ones are replaced")
	flags.StringVar(&o.Collector, "collector", "", "the collector's program (default: continuum-collector beside this one)")
	return cmd
}
