// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledgertest

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/ledger"
)

// serials lists by filter, page by page.
func (f *Fixture) serials(filter ledger.Filter) (serials []string) {
	f.tb.Helper()
	for {
		f.View(func(tx *ledger.Tx) error {
			entries, cursor, err := tx.Entries(filter)
			require.NoError(f.tb, err)
			if filter.Limit > 0 {
				require.LessOrEqual(f.tb, len(entries), filter.Limit)
			}
			for _, e := range entries {
				serials = append(serials, e.Serial)
			}
			filter.Cursor = cursor
			return nil
		})
		if filter.Cursor == "" {
			return serials
		}
	}
}

func testEntries(t *testing.T, f *Fixture) {
	a, b, c, d := f.family()
	f.Clock.Advance(29 * day)
	other := f.MustEnroll("op-a", ledger.RoleSender, "c2", "other")
	f.Update(func(tx *ledger.Tx) error {
		_, err := tx.RevokeLeaf("op-a", c.Serial, "retired")
		return err
	})
	list := func(filter ledger.Filter) []string {
		filter.OperatorID = "op-a"
		all := f.serials(filter)
		filter.Limit = 1
		assert.Equal(t, all, f.serials(filter), "the same by pages of one")
		return all
	}
	all := []string{other.Serial, d.Serial, c.Serial, b.Serial, a.Serial}
	assert.Equal(t, all, list(ledger.Filter{}), "newest first")
	assert.ElementsMatch(t, all[1:], list(ledger.Filter{Holder: a.Holder}))
	assert.Empty(t, list(ledger.Filter{Holder: "nobody"}))
	assert.Empty(t, list(ledger.Filter{Role: ledger.RoleReceiver}))
	assert.ElementsMatch(t, all[1:], list(ledger.Filter{EndsBefore: f.Clock.Now().Add(2 * day)}))
	assert.Equal(t, []string{d.Serial, other.Serial}, list(ledger.Filter{Newest: true}), "one per holder and role")
	assert.Equal(t, []string{d.Serial}, list(ledger.Filter{Newest: true, EndsBefore: f.Clock.Now().Add(2 * day)}))
	assert.Equal(t, []string{d.Serial, other.Serial}, list(ledger.Filter{State: ledger.StateValid}))
	assert.Equal(t, []string{b.Serial, a.Serial}, list(ledger.Filter{State: ledger.StateSuperseded}))
	assert.Equal(t, []string{c.Serial}, list(ledger.Filter{State: ledger.StateRevoked}))
	assert.Empty(t, list(ledger.Filter{State: ledger.StateEnded}))
	f.Clock.Advance(2 * day)
	assert.Equal(t, []string{d.Serial, b.Serial, a.Serial}, list(ledger.Filter{State: ledger.StateEnded}))
	for _, cursor := range []string{"!", "bnVsbA", "WzFd", "WyJhIiwiYiJd", "WyJhIiwxLDJd"} {
		f.View(func(tx *ledger.Tx) error {
			_, _, err := tx.Entries(ledger.Filter{OperatorID: "op-a", Cursor: cursor})
			assert.ErrorIs(t, err, ledger.ErrBadCursor)
			return nil
		})
	}
}

func testEntriesOfOrg(t *testing.T, f *Fixture) {
	f.Operator("op-b", 365*day)
	f.Sender("op-b", "c1")
	f.Operator("op-x", 365*day)
	f.Sender("op-x", "c1")
	a := f.MustEnroll("op-a", ledger.RoleSender, "c1", "a")
	b := f.MustEnroll("op-b", ledger.RoleSender, "c1", "b")
	x := f.MustEnroll("op-x", ledger.RoleSender, "c1", "x")
	f.Exec(`INSERT INTO organisations (id, name, created_at) VALUES ('other', '', 0)`)
	f.Exec(`UPDATE operators SET org_id = 'other' WHERE id = 'op-x'`)
	assert.Equal(t, []string{b.Serial, a.Serial}, f.serials(ledger.Filter{OrgID: Org, Limit: 1}))
	assert.Equal(t, []string{x.Serial}, f.serials(ledger.Filter{OrgID: "other"}))

	f.View(func(tx *ledger.Tx) error {
		_, cursor, err := tx.Entries(ledger.Filter{OrgID: Org, Limit: 1})
		require.NoError(t, err)
		_, _, err = tx.Entries(ledger.Filter{OperatorID: "op-a", Cursor: cursor})
		require.ErrorIs(t, err, ledger.ErrBadCursor, "of another operator's list")
		strangers, _, err := tx.Entries(ledger.Filter{OrgID: "other", Cursor: cursor})
		assert.Empty(t, strangers, "a cursor opens no other organisation's list")
		return err
	})
	assert.Empty(t, f.serials(ledger.Filter{OrgID: "other", OperatorID: "op-a"}))
	assert.Equal(t, []string{a.Serial, b.Serial}, f.serials(ledger.Filter{OrgID: Org, Newest: true, Limit: 1}))
	assert.ElementsMatch(t, []string{a.Serial, b.Serial},
		f.serials(ledger.Filter{OrgID: Org, EndsBefore: Epoch.Add(31 * day), Limit: 1}))
}

func (f *Fixture) events(operatorID string) (events []ledger.Event) {
	f.tb.Helper()
	f.View(func(tx *ledger.Tx) (err error) {
		events, err = tx.EventsAfter(operatorID, 0, 1000)
		return err
	})
	return events
}

// LG-1, LG-2: who, when and which key, never the certificate or its key.
func testChain(t *testing.T, f *Fixture) {
	a, _, _, _ := f.family()
	f.Update(func(tx *ledger.Tx) error {
		_, err := tx.RevokeHolder("op-a", a.Holder, ledger.RoleSender, "compromised")
		require.NoError(t, err)
		n, err := tx.Append("op-a", map[string]any{"type": ledger.EventHeld, "note": "<ünïcode> & \u2028"})
		assert.EqualValues(t, 7, n)
		return err
	})
	events := f.events("op-a")
	require.Len(t, events, 7)
	var types []string
	var chain ledger.Chain
	for i, e := range events {
		var fields map[string]any
		require.NoError(t, json.Unmarshal(e.Event, &fields))
		assert.EqualValues(t, i+1, fields["sequence"])
		assert.Equal(t, "op-a", fields["operatorId"])
		assert.Equal(t, "2026-03-01T12:00:00Z", fields["at"])
		types = append(types, fields["type"].(string))
		require.NoError(t, chain.Add(e))
		assert.NotContains(t, string(e.Event), "BEGIN")
	}
	assert.Equal(t, []string{"ca_created", "issued", "issued", "issued", "issued", "revoked", "held"}, types)
	for _, want := range []string{a.Serial, a.Holder, a.SPKI, `"notAfter":"2026-03-31T12:00:00Z"`, `"issuer":"010203"`} {
		assert.Contains(t, string(events[1].Event), want)
	}
	head, err := f.Store.Verify(context.Background(), "op-a")
	require.NoError(t, err)
	assert.Equal(t, chain.Head(), head)
	f.View(func(tx *ledger.Tx) error {
		got, err := tx.Head("op-a")
		assert.Equal(t, head, got)
		rest, _ := tx.EventsAfter("op-a", 5, 1)
		assert.Equal(t, events[5:6], rest)
		empty, _ := tx.Head("op-none")
		assert.Equal(t, ledger.Head{OperatorID: "op-none", Hash: strings.Repeat("0", 64)}, empty)
		return err
	})
}

func testChainEdits(t *testing.T, f *Fixture) {
	a, _, c, _ := f.family()
	f.Update(func(tx *ledger.Tx) error {
		_, err := tx.RevokeLeaf("op-a", c.Serial, "retired")
		return err
	})
	_, err := f.Store.Verify(context.Background(), "op-a")
	require.NoError(t, err)
	for _, test := range []struct{ name, edit, undo, says string }{
		{"an event", `UPDATE events SET event = REPLACE(event, '"cluster"', '"host"') WHERE sequence = 3`,
			`UPDATE events SET event = REPLACE(event, '"host"', '"cluster"') WHERE sequence = 3`, "event 3 was changed"},
		{"a removed event", `UPDATE events SET operator_id = 'op-z' WHERE sequence = 2`,
			`UPDATE events SET operator_id = 'op-a' WHERE sequence = 2`, "event 2 is missing"},
		{"an entry", `UPDATE entries SET not_after = not_after + 86400 WHERE serial = '` + a.Serial + `'`,
			`UPDATE entries SET not_after = not_after - 86400 WHERE serial = '` + a.Serial + `'`, "was changed: notAfter"},
		{"a revocation taken back", `UPDATE entries SET revoked_at = NULL WHERE serial = '` + c.Serial + `'`,
			`UPDATE entries SET revoked_at = 1 WHERE serial = '` + c.Serial + `'`, "revoked it"},
		{"a lost entry", `UPDATE entries SET serial = '0c' WHERE serial = '` + a.Serial + `'`,
			`UPDATE entries SET serial = '` + a.Serial + `' WHERE serial = '0c'`, "an entry is missing"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f.Exec(test.edit)
			_, err := f.Store.Verify(context.Background(), "op-a")
			require.ErrorContains(t, err, test.says)
			f.Exec(test.undo)
			_, err = f.Store.Verify(context.Background(), "op-a")
			require.NoError(t, err)
		})
	}
}

// trap-15 in small: pruning leaves the chain verifiable.
func testPrune(t *testing.T, f *Fixture) {
	f.family()
	f.Clock.Advance(31 * day)
	young := f.MustEnroll("op-a", ledger.RoleSender, "c2", "young")
	prune := func(before time.Time) (n int64) {
		f.Update(func(tx *ledger.Tx) (err error) {
			n, err = tx.Prune("op-a", before)
			return err
		})
		return n
	}
	assert.EqualValues(t, 4, prune(f.Clock.Now()))
	assert.Zero(t, prune(f.Clock.Now()))
	assert.Equal(t, []string{young.Serial}, f.serials(ledger.Filter{OperatorID: "op-a"}))
	_, err := f.Store.Verify(context.Background(), "op-a")
	require.NoError(t, err)
	err = f.Store.Update(context.Background(), func(tx *ledger.Tx) error {
		_, err := tx.Prune("op-a", f.Clock.Now().Add(time.Second))
		return err
	})
	require.Error(t, err, "living leaves are not pruned")
}

// testPruneAll takes out what has ended long ago, once, and leaves the chain
// right (trap-15).
func testPruneAll(t *testing.T, f *Fixture) {
	old := f.MustEnroll("op-a", ledger.RoleSender, "c1", "old")
	f.Update(func(tx *ledger.Tx) error {
		_, err := tx.NewEpoch()
		require.NoError(t, err)
		require.NoError(t, tx.KeepUnknownLeaf("op-a", "0a", []byte("der")))
		require.NoError(t, tx.DenyLostName("op-a", "op-a-export-c9"))
		return tx.UseProof("op-a", 9, "jti", f.Clock.Now())
	})
	due := func(before time.Time) (due bool) {
		f.View(func(tx *ledger.Tx) (err error) {
			due, err = tx.Prunable(before)
			return err
		})
		return due
	}
	assert.False(t, due(f.Clock.Now()))
	f.Clock.Advance(31 * day)
	young := f.MustEnroll("op-a", ledger.RoleSender, "c2", "young")
	assert.True(t, due(Epoch), "a used proof, an unknown leaf and a lost denial")
	before := f.Clock.Now().Add(-time.Hour)
	f.Update(func(tx *ledger.Tx) error {
		n, err := tx.PruneAll(before)
		assert.EqualValues(t, 1, n)
		return err
	})
	assert.False(t, due(before))
	assert.Equal(t, []string{young.Serial}, f.serials(ledger.Filter{OperatorID: "op-a"}))
	for _, table := range []string{"unknown_leaves", "lost_denials", "used_proofs"} {
		f.View(func(tx *ledger.Tx) error {
			var n int
			defer func() { assert.Zero(t, n, table) }()
			return tx.QueryRow(`SELECT COUNT(*) FROM ` + table).Scan(&n)
		})
	}
	f.View(func(tx *ledger.Tx) error {
		var tokens int
		require.NoError(t, tx.QueryRow(`SELECT COUNT(*) FROM enrollment_tokens`).Scan(&tokens))
		assert.Equal(t, 1, tokens)
		_, err := tx.Entry("op-a", old.Serial)
		assert.ErrorIs(t, err, ledger.ErrNotFound)
		return nil
	})
	_, err := f.Store.Verify(context.Background(), "op-a")
	require.NoError(t, err)
}
