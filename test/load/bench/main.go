// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command bench measures the control server; see package load. scripts/bench
// builds what it needs and calls it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"

	"github.com/ikhnos/continuum/test/load"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	o := load.Default()
	parts := flag.String("parts", strings.Join(load.Parts, ","), "what to measure")
	flag.StringVar(&o.Ikhnos, "ikhnos", "bin/ikhnos", "the control binary")
	flag.StringVar(&o.StepCA, "step-ca", "", "the step-ca binary; empty leaves it out")
	flag.IntVar(&o.Pairs, "pairs", o.Pairs, "how often the two servers take turns")
	flag.IntVar(&o.Workers, "workers", o.Workers, "connections that issue at the same time")
	flag.IntVar(&o.Kept, "kept", o.Kept, "holders that renew in a turn over kept connections")
	flag.IntVar(&o.Fresh, "fresh", o.Fresh, "holders that renew in a turn with a connection each")
	flag.DurationVar(&o.Late, "late", o.Late, "by how much the slow disk confirms later")
	flag.IntVar(&o.Slow, "slow", o.Slow, "holders that renew in a turn on the slow disk")
	flag.IntVar(&o.Operators, "operators", o.Operators, "operators in long polls")
	flag.IntVar(&o.Cuts, "cuts", o.Cuts, "of these, operators whose sender is cut off")
	flag.IntVar(&o.Beating, "beating", o.Beating, "operators that send heartbeats")
	flag.Parse()
	o.Parts = strings.Split(*parts, ",")
	dir, err := os.MkdirTemp("", "continuum-bench")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	o.Dir = dir
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	return load.Run(ctx, o)
}
