// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package load

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Parts of a run.
const (
	PartIssue      = "issue"
	PartSlowDisk   = "slowdisk"
	PartFanOut     = "fanout"
	PartRevocation = "revocation"
	PartHeartbeats = "heartbeats"
)

// Parts lists all parts in the order in which they run.
var Parts = []string{PartIssue, PartSlowDisk, PartFanOut, PartRevocation, PartHeartbeats}

// Options size a run. Every field but StepCA is needed.
type Options struct {
	Ikhnos string // path of the control binary
	StepCA string // path of step-ca; empty leaves the peer out
	Dir    string // folder for all state; it must exist
	Out    io.Writer
	Parts  []string // of Parts

	Workers int // connections that issue at the same time
	Pairs   int // how often the two servers take turns
	// Kept and Fresh are how many holders renew in one turn over kept connections
	// and with a connection each; every holder renews renewalsEach times.
	Kept, Fresh int
	// Late is by how much the slow disk confirms later than this machine's own, and
	// Slow how many holders renew on it in one turn of either kind.
	Late time.Duration
	Slow int
	// Peer divides the requests of a turn of step-ca, which takes longer for each.
	Peer int

	Operators int           // that wait in long polls
	Cuts      int           // of them, that have a sender which is cut off
	Beating   int           // operators that send heartbeats, a connection each
	BeatFor   time.Duration // how long
}

// renewalsEach is how often one holder renews: with its first leaf these are the
// 20 living leaves that it may have.
const renewalsEach = 19

// Default is what `make bench` runs: five pairs, 100,000 living leaves, 1,000
// operators in long polls, 200 of which lose a sender, 3,500 that beat.
func Default() Options {
	return Options{
		Out: os.Stdout, Parts: Parts, Workers: 8, Pairs: 5, Kept: 800, Fresh: 210, Late: 2 * time.Millisecond, Slow: 80, Peer: 3,
		Operators: 1000, Cuts: 200, Beating: 3500, BeatFor: 10 * time.Second,
	}
}

// Run measures the parts asked for, one after the other, and prints as it goes.
func Run(ctx context.Context, o Options) error {
	o.printf("%s %s/%s, %d cores, load average %s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), loadAverage())
	if each, err := syncCost(o.Dir); err == nil {
		o.printf("fdatasync of one 4 KiB page on this disk: %s\n", each.Round(time.Microsecond))
	}
	for _, part := range []struct {
		name string
		run  func(context.Context, Options) error
	}{{PartIssue, issuePart}, {PartSlowDisk, slowDiskPart}, {PartFanOut, fanOutPart}, {PartRevocation, revocationPart}, {PartHeartbeats, heartbeatPart}} {
		if !slices.Contains(o.Parts, part.name) {
			continue
		}
		if err := part.run(ctx, o); err != nil {
			return fmt.Errorf("measuring %s: %w", part.name, err)
		}
	}
	o.printf("\nload average at the end %s\n", loadAverage())
	return nil
}

func (o Options) printf(format string, args ...any) { _, _ = fmt.Fprintf(o.Out, format, args...) }

// loadAverage is what the system says of the last minute, generator and servers
// of this run included; empty where it cannot be read.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}
