// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package trail_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ikhnos/continuum/control/audit"
	"github.com/ikhnos/continuum/control/audit/trail"
	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/ledger/ledgertest"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestList(t *testing.T) {
	clock := ledgertest.NewClock()
	store, err := ledger.Open(t.Context(), ledger.Options{DataDir: t.TempDir(), Now: clock.Now})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	for _, object := range []string{"c1", "c2", "c3"} {
		for _, org := range []string{"acme", "other"} {
			require.NoError(t, store.Update(t.Context(), func(tx *ledger.Tx) error {
				return tx.Audit(audit.Entry{OrgID: org, Actor: "alice", Event: audit.ClusterApproved, Object: object, Detail: map[string]any{"n": 1}})
			}))
		}
		clock.Advance(time.Minute)
	}
	list := func(f trail.Filter, p operators.Page) operators.List[trail.Record] {
		got, err := trail.List(t.Context(), store, "acme", f, p)
		require.NoError(t, err)
		return got
	}
	first := list(trail.Filter{}, operators.Page{Limit: 2})
	require.Equal(t, []string{"c3", "c2"}, objects(first.Items))
	require.Equal(t, trail.Record{
		Sequence: first.Items[0].Sequence, At: ledgertest.Epoch.Add(2 * time.Minute), Actor: "alice",
		Event: audit.ClusterApproved, Object: "c3", Detail: map[string]any{"n": 1.0},
	}, first.Items[0])
	second := list(trail.Filter{}, operators.Page{Limit: 2, Cursor: first.NextCursor})
	require.Equal(t, []string{"c1"}, objects(second.Items))
	require.Empty(t, second.NextCursor)

	require.Equal(t, []string{"c3", "c2"}, objects(list(trail.Filter{Since: ledgertest.Epoch.Add(time.Minute)}, operators.Page{}).Items))
	require.Equal(t, []string{"c2"}, objects(list(trail.Filter{Actor: "alice", Event: audit.ClusterApproved, Object: "c2"}, operators.Page{}).Items))
	for _, f := range []trail.Filter{{Actor: "bob"}, {Event: "x"}, {Object: "c4"}} {
		require.NotNil(t, list(f, operators.Page{}).Items)
		require.Empty(t, list(f, operators.Page{}).Items)
	}
	for _, page := range []operators.Page{{Cursor: "x"}, {Cursor: "0"}, {Limit: -1}, {Limit: 501}} {
		_, err = trail.List(t.Context(), store, "acme", trail.Filter{}, page)
		var problem *controlapi.Problem
		require.ErrorAs(t, err, &problem)
		require.Equal(t, controlapi.ReasonRequestMalformed, problem.Reason)
	}
}

func objects(entries []trail.Record) []string {
	var ids []string
	for _, e := range entries {
		ids = append(ids, e.Object)
	}
	return ids
}
