// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/ledger/ledgertest"
)

// trap-15: what a certificate costs in the store, event and indexes and audit line
// with it, is bounded, whatever came before; every list goes through all of its pages;
// and pruning gives the room back and leaves the chain right. CONTINUUM_CERTIFICATES
// says how many there are; a million take a quarter of an hour without the race
// detector. The log shows how long a page takes; TestQueryPlans holds that
// each has its index.
func TestManyCertificates(t *testing.T) {
	const maxBytes = 3000
	count := 240
	if n, err := strconv.Atoi(os.Getenv("CONTINUUM_CERTIFICATES")); err == nil {
		count = n
	}
	clock := ledgertest.NewClock()
	f := ledgertest.New(t, openSQLite(t, t.TempDir(), clock), clock)
	f.Operator("op-a", 20*365*24*time.Hour)
	used := func() (bytes int64) {
		f.View(func(tx *ledger.Tx) error {
			return tx.QueryRow(`SELECT (page_count - freelist_count) * page_size
				FROM pragma_page_count(), pragma_freelist_count(), pragma_page_size()`).Scan(&bytes)
		})
		return bytes
	}
	empty := used()
	issueMany(t, f, clock, count)
	each := (used() - empty) / int64(count)
	t.Logf("%d certificates, %d bytes each", count, each)
	assert.Less(t, each, int64(maxBytes))

	for _, filter := range []ledger.Filter{
		{OperatorID: "op-a"},
		{OperatorID: "op-a", Holder: "op-a-export-c1"},
		{OperatorID: "op-a", Newest: true},
		{OperatorID: "op-a", State: ledger.StateValid},
		{OperatorID: "op-a", State: ledger.StateEnded},
		{OperatorID: "op-a", EndsBefore: clock.Now().Add(12 * time.Hour)},
		{OrgID: ledgertest.Org},
		{OrgID: ledgertest.Org, State: ledger.StateRevoked},
		{OrgID: ledgertest.Org, EndsBefore: clock.Now().Add(12 * time.Hour), State: ledger.StateValid},
	} {
		timePages(t, f, filter)
	}

	clock.Advance(60 * 24 * time.Hour) // all have ended
	full := used()
	f.Update(func(tx *ledger.Tx) error {
		n, err := tx.PruneAll(clock.Now().Add(-time.Hour))
		assert.EqualValues(t, count, n)
		return err
	})
	assert.Less(t, used(), full)
	_, err := f.Store.Verify(context.Background(), "op-a")
	require.NoError(t, err)
}

// timePages goes through a list and logs how long its pages took.
func timePages(t *testing.T, f *ledgertest.Fixture, filter ledger.Filter) {
	var entries, pages int
	var all, longest time.Duration
	for filter.Limit = 100; pages == 0 || filter.Cursor != ""; pages++ {
		began := time.Now()
		f.View(func(tx *ledger.Tx) (err error) {
			var list []ledger.Entry
			list, filter.Cursor, err = tx.Entries(filter)
			entries += len(list)
			return err
		})
		took := time.Since(began)
		all, longest = all+took, max(longest, took)
	}
	filter.Limit = 0
	t.Logf("%+v: %d entries on %d pages, %s a page, the longest %s", filter, entries, pages, all/time.Duration(pages), longest)
}

// issueMany issues by renewal: in each round every one of a few senders renews, at
// once. Leaves are short, so that no sender has too many at the same time.
func issueMany(t *testing.T, f *ledgertest.Fixture, clock *ledgertest.Clock, count int) {
	const senders = 40
	leaves := make([]ledger.Entry, senders)
	for i := range leaves {
		holder := fmt.Sprintf("c%d", i)
		f.Sender("op-a", holder)
		leaves[i] = f.MustEnroll("op-a", ledger.RoleSender, holder, "first of "+holder)
	}
	for round := 1; round < count/senders; round++ {
		clock.Advance(2 * time.Hour)
		var wg sync.WaitGroup
		for i := range leaves {
			wg.Go(func() {
				out, err := f.Store.Issue(context.Background(), ledger.IssueRequest{
					Proof: f.Proof(leaves[i]), SPKI: ledgertest.Key(fmt.Sprintf("key %d of %d", round, i)), Lifetime: 24 * time.Hour,
				})
				assert.NoError(t, err)
				leaves[i] = out.Entry
			})
		}
		wg.Wait()
		require.False(t, t.Failed())
	}
	require.Equal(t, count, f.Count("op-a"))
}
