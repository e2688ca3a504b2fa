// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"crypto/rand"
	"database/sql"
	"fmt"
	randv2 "math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/ledger/ledgertest"
)

// Used proofs that have ended leave the table while others come, however many
// leaves there are, and those that have not ended stay.
func TestUsedProofsAreCleanedUp(t *testing.T) {
	clock := ledgertest.NewClock()
	s := openSQLite(t, t.TempDir(), clock)
	use := func(n int, life time.Duration) {
		require.NoError(t, s.Update(t.Context(), func(tx *ledger.Tx) error {
			for range n {
				if err := tx.UseProof("op-a", randv2.Int64N(1000), rand.Text(), clock.Now().Add(life)); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	count := func() (n int) {
		require.NoError(t, s.View(t.Context(), func(tx *ledger.Tx) error {
			return tx.QueryRow(`SELECT COUNT(*) FROM used_proofs`).Scan(&n)
		}))
		return n
	}
	use(500, time.Second)
	use(50, 24*time.Hour)
	clock.Advance(time.Hour)
	use(200, 24*time.Hour)
	assert.Equal(t, 250, count(), "the old ones are gone, the others are not")
	for range 20 {
		clock.Advance(time.Hour)
		use(100, time.Second)
	}
	assert.Less(t, count(), 500, "2,250 were used, at most 350 are not over")
}

// The third migration moves events and audit lines to other tables, the fourth one
// used proofs.
func TestOlderSchema(t *testing.T) {
	dir, clock := t.TempDir(), ledgertest.NewClock()
	s, err := ledger.Open(t.Context(), ledger.Options{DataDir: dir, Now: clock.Now, Schema: 2})
	require.NoError(t, err)
	f := ledgertest.New(t, s, clock)
	var leaves []ledger.Entry
	for _, id := range []string{"op-b", "op-a"} {
		f.Operator(id, 365*24*time.Hour)
		f.Sender(id, "c1")
		leaves = append(leaves, f.MustEnroll(id, ledger.RoleSender, "c1", id))
	}
	f.Exec(`INSERT INTO used_proofs (leaf, jti, expires_at) VALUES ($1, 'used', $2)`,
		"op-a/"+leaves[1].Serial, clock.Now().Add(time.Minute).Unix())
	dump := func() (lines []string) {
		db, err := sql.Open("sqlite", filepath.Join(dir, ledger.DatabaseFile))
		require.NoError(t, err)
		defer func() { require.NoError(t, db.Close()) }()
		rows, err := db.Query(`SELECT operator_id, sequence, event, hex(hash), typeof(hash) FROM events
			UNION ALL SELECT org_id, sequence, at || actor || event || detail, object, request_id || address FROM audit ORDER BY 1, 2`)
		require.NoError(t, err)
		defer func() { require.NoError(t, rows.Close()) }()
		for rows.Next() {
			var a, c, d, e string
			var b int
			require.NoError(t, rows.Scan(&a, &b, &c, &d, &e))
			lines = append(lines, fmt.Sprint(a, b, c, d, e))
		}
		require.NoError(t, rows.Err())
		return lines
	}
	before := dump()
	require.Len(t, before, 6)
	require.NoError(t, s.Close())

	s = openSQLite(t, dir, clock)
	assert.Equal(t, before, dump())
	f = ledgertest.New(t, s, clock)
	err = s.Update(t.Context(), func(tx *ledger.Tx) error {
		return tx.UseProof("op-a", leaves[1].Sequence, "used", clock.Now().Add(time.Minute))
	})
	require.ErrorIs(t, err, ledger.ErrReplayed, "used before the upgrade")
	_, err = f.Renew(leaves[1], "k2")
	require.NoError(t, err)
	assert.Len(t, dump(), 8)
	for _, id := range []string{"op-a", "op-b"} {
		head, err := s.Verify(t.Context(), id)
		require.NoError(t, err)
		assert.Positive(t, head.Sequence)
	}
}
