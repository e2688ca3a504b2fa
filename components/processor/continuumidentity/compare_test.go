// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package continuumidentity

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer/consumertest"
)

// cost is what a request of benchRequest spans costs.
type cost struct {
	nanoseconds float64 // of processor time for one span
	allocations float64
}

// compareTurns is how often each contender has its turn.
const compareTurns = 15

// compare lets ways of doing the same take turns, so that what else the machine
// does hits all alike. The best turn of each counts: it was disturbed least.
func compare(t *testing.T, requests int, ways []func() error) []cost {
	t.Helper()
	best := make([]cost, len(ways))
	for turn := range compareTurns {
		for i, way := range ways {
			require.NoError(t, way(), "and warms up")
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := processorTime(t)
			for range requests {
				require.NoError(t, way())
			}
			nanoseconds := float64(processorTime(t)-start) / float64(requests) / benchRequest
			runtime.ReadMemStats(&after)
			if turn == 0 || nanoseconds < best[i].nanoseconds {
				best[i] = cost{nanoseconds, float64(after.Mallocs-before.Mallocs) / float64(requests)}
			}
		}
	}
	return best
}

// processorTime is what this process has used so far, in nanoseconds: unlike the
// time on the wall it does not count what other programs use.
func processorTime(t *testing.T) int64 {
	t.Helper()
	var usage syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return usage.Utime.Nano() + usage.Stime.Nano()
}

// TestComparison prints what docs/benchmarks.md shows: this processor, transform
// doing the same and none, measured in one run.
func TestComparison(t *testing.T) {
	if os.Getenv("CONTINUUM_BENCH") != "1" {
		t.Skip("measures; set CONTINUUM_BENCH=1")
	}
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(format string, args ...any) { fmt.Fprintf(table, format+"\t\n", args...) }
	row("%d spans a request\tcontinuumidentity\ttransform\tratio\tallocations\tof transform", benchRequest)
	for _, shape := range benchShapes() {
		var ways []func() error
		for _, c := range contenders[1:] {
			ways = append(ways, through(c.make(t, consumertest.NewNop()), shape.td))
		}
		costs := compare(t, 20, ways)
		row("clean, %s\t%.0f ns/span\t%.0f ns/span\t%.1f\t%.0f\t%.0f", shape.name,
			costs[0].nanoseconds, costs[1].nanoseconds, costs[1].nanoseconds/costs[0].nanoseconds, costs[0].allocations, costs[1].allocations)
	}
	row("\t\t\t\t\t")
	row("decode and encode\tns/span\tthroughput\tallocations\t\t")
	var ways []func() error
	for _, c := range contenders {
		ways = append(ways, relay(t, c))
	}
	costs := compare(t, 10, ways)
	for i, c := range contenders {
		row("with %s between\t%.0f\t%.1f %%\t%.0f\t\t", c.name, costs[i].nanoseconds, 100*costs[0].nanoseconds/costs[i].nanoseconds, costs[i].allocations)
	}
	require.NoError(t, table.Flush())
	fmt.Println(text.String())
}
