// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// trap-15: with a million entries every query goes through an index that fits it,
// and lists come out of one in order.
func TestQueryPlans(t *testing.T) {
	now := func() time.Time { return time.Unix(1e9, 0) }
	s, err := Open(t.Context(), Options{DataDir: t.TempDir(), Now: now})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	plan := func(query string, args ...any) (lines string) {
		t.Helper()
		require.NoError(t, s.View(t.Context(), func(tx *Tx) error {
			rows, err := tx.Query("EXPLAIN QUERY PLAN "+query, args...)
			require.NoError(t, err)
			defer func() { assert.NoError(t, rows.Close()) }()
			for rows.Next() {
				var id, parent, unused int
				var detail string
				require.NoError(t, rows.Scan(&id, &parent, &unused, &detail))
				lines += detail + "\n"
			}
			return rows.Err()
		}))
		return lines
	}
	for _, test := range []struct{ name, query, index string }{
		{"living", `SELECT COUNT(*) FROM entries WHERE operator_id = 'o' AND holder = 'h' AND role = 'r' AND not_after >= 1 AND revoked_at IS NULL`, "COVERING INDEX entries_by_holder"},
		{"supersede", `UPDATE entries SET superseded_at = 1 WHERE operator_id = 'o' AND holder = 'h' AND role = 'r' AND superseded_at IS NULL`, "entries_newest"},
		{"key", `SELECT * FROM entries e WHERE e.spki = 'x'`, "entries_by_spki"},
		{"revoke holder", `UPDATE entries SET revoked_at = 1 WHERE operator_id = 'o' AND revoked_at IS NULL AND not_after >= 1 AND holder = 'h' AND role = 'r'`, "entries_by_holder"},
		{"revoked", `SELECT serial FROM entries WHERE operator_id = 'o' AND revoked_at IS NOT NULL AND not_after >= 1 ORDER BY serial`, "entries_revoked"},
		{"proofs to clean", `SELECT operator_id FROM used_proofs WHERE (operator_id, sequence, jti) > ('o', 1, 'j') ORDER BY operator_id, sequence, jti LIMIT 1 OFFSET 63`, "SEARCH used_proofs USING PRIMARY KEY"},
		{"old proofs", `DELETE FROM used_proofs WHERE expires_at < 1 AND (operator_id, sequence, jti) > ('o', 1, 'j') AND (operator_id, sequence, jti) <= ('p', 2, 'k')`, "SEARCH used_proofs USING PRIMARY KEY"},
	} {
		t.Run(test.name, func(t *testing.T) { assert.Contains(t, plan(test.query), test.index) })
	}
	for _, test := range []struct {
		name   string
		filter Filter
		index  string
		begins string // by which a page after a cursor begins
	}{
		{"all", Filter{}, "entries_by_sequence", "sequence<?"},
		{"of an operator", Filter{OperatorID: "o"}, "entries_by_sequence", "sequence<?"},
		{"of an organisation", Filter{OrgID: "o"}, "entries_by_sequence", "sequence<?"},
		{"of a holder", Filter{OperatorID: "o", Holder: "h"}, "entries_by_holder", "holder=? AND (role,not_after,sequence)<"},
		{"of a holder and role", Filter{OperatorID: "o", Holder: "h", Role: "r"}, "entries_by_holder", "role=? AND (not_after,sequence)<"},
		{"of a holder in an organisation", Filter{OrgID: "o", Holder: "h"}, "entries_by_holder", "holder=? AND (role,not_after,sequence)<"},
		{"newest", Filter{OperatorID: "o", Newest: true}, "entries_newest", "(holder,role)>"},
		{"newest of an organisation", Filter{OrgID: "o", Newest: true}, "entries_newest", "(holder,role)>"},
		{"newest that end before", Filter{OrgID: "o", Newest: true, EndsBefore: now()}, "entries_newest", "(holder,role)>"},
		{"valid", Filter{OperatorID: "o", State: StateValid}, "entries_newest", "(holder,role)>"},
		{"valid in an organisation", Filter{OrgID: "o", State: StateValid}, "entries_newest", "(holder,role)>"},
		{"superseded", Filter{OperatorID: "o", State: StateSuperseded}, "entries_by_end", "(not_after,sequence)<"},
		{"superseded in an organisation", Filter{OrgID: "o", State: StateSuperseded}, "entries_by_end", "(not_after,sequence)<"},
		{"revoked", Filter{OperatorID: "o", State: StateRevoked}, "entries_revoked", "(not_after,sequence)<"},
		{"revoked in an organisation", Filter{OrgID: "o", State: StateRevoked}, "entries_revoked", "(not_after,sequence)<"},
		{"revoked that end before", Filter{OrgID: "o", State: StateRevoked, EndsBefore: now()}, "entries_revoked", "(not_after,sequence)>"},
		{"ended", Filter{OperatorID: "o", State: StateEnded}, "entries_by_end", "(not_after,sequence)<"},
		{"ended in an organisation", Filter{OrgID: "o", State: StateEnded}, "entries_by_end", "(not_after,sequence)<"},
		{"ends before", Filter{OrgID: "o", EndsBefore: now(), State: StateValid}, "entries_by_end", "(not_after,sequence)>"},
		{"ends before, of an operator", Filter{OperatorID: "o", EndsBefore: now(), State: StateValid}, "entries_by_end", "(not_after,sequence)>"},
	} {
		t.Run(test.name, func(t *testing.T) {
			planOf := func(p part) string {
				query, args := p.query(now().Unix(), 100)
				got := plan(query, args...)
				assert.Contains(t, got, test.index)
				assert.NotContains(t, got, "TEMP B-TREE")
				return got
			}
			first, err := partsOf(test.filter)
			require.NoError(t, err)
			require.Len(t, first, 1)
			planOf(first[0])

			test.filter.Cursor = first[0].order.cursor(Entry{OperatorID: "o"})
			next, err := partsOf(test.filter)
			require.NoError(t, err)
			assert.Contains(t, planOf(next[0]), test.begins)
			for _, beyond := range next[1:] {
				planOf(beyond)
			}
		})
	}
}
