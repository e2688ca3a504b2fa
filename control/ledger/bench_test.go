// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/ledger/ledgertest"
)

// BenchmarkIssue renews durably with 8 workers, each a sender of its own.
func BenchmarkIssue(b *testing.B) {
	const workers = 8
	clock := ledgertest.NewClock()
	f := ledgertest.New(b, openSQLite(b, b.TempDir(), clock), clock)
	f.Operator("op-bench", 5*365*24*time.Hour)
	leaves := make([]ledger.Entry, workers)
	for i := range leaves {
		f.Sender("op-bench", fmt.Sprintf("c%d", i))
		leaves[i] = f.MustEnroll("op-bench", ledger.RoleSender, fmt.Sprintf("c%d", i), fmt.Sprintf("first-%d", i))
	}
	var n atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for i := range workers {
		wg.Go(func() {
			for k := n.Add(1); k <= int64(b.N); k = n.Add(1) {
				out, err := f.Store.Issue(context.Background(), ledger.IssueRequest{
					Proof: f.Proof(leaves[i]), SPKI: ledgertest.Key(fmt.Sprint("key", k)), Lifetime: 24 * time.Hour,
				})
				if err != nil {
					b.Error(err)
					return
				}
				leaves[i] = out.Entry
				clock.Advance(20 * time.Minute)
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "issues/s")
	require.False(b, b.Failed())
}
