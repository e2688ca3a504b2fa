// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/audit"
	"github.com/ikhnos/continuum/control/ledger"
)

// Opener opens an empty store that the test closes.
type Opener func(t *testing.T, clock *Clock) *ledger.Store

// Run runs the conformance suite, each test on a store of its own.
func Run(t *testing.T, open Opener) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, *Fixture)
	}{
		{"update is all or nothing", testUpdate},
		{"updates do not interleave", testSerial},
		{"settings", testSettings},
		{"versions and changes", testVersions},
		{"audit", testAudit},
		{"enroll", testEnroll},
		{"enroll refusals", testEnrollRefusals},
		{"enroll repeated", testEnrollRepeated},
		{"one token used at once", testTokenRace},
		{"one key used at once", testKeyRace},
		{"renew", testRenew},
		{"renew refusals", testRenewRefusals},
		{"renew repeated", testRenewRepeated},
		{"renew while a rekey is in progress", testRenewReplaced},
		{"renew a replaced leaf after its overlap", testReplacedOver},
		{"keys in use", testKeyInUse},
		{"twenty living leaves", testTwenty},
		{"end of the CA", testCAEnd},
		{"revoke a holder", testRevokeHolder},
		{"revoke a leaf", testRevokeLeaf},
		{"revoke an operator", testRevokeOperator},
		{"list entries", testEntries},
		{"list across operators", testEntriesOfOrg},
		{"chain", testChain},
		{"chain notices edits", testChainEdits},
		{"prune", testPrune},
		{"epoch", testEpoch},
		{"adopt", testAdopt},
		{"lost denials", testLost},
		{"prune all", testPruneAll},
	} {
		t.Run(test.name, func(t *testing.T) {
			clock := NewClock()
			f := New(t, open(t, clock), clock)
			f.Operator("op-a", 5*365*24*time.Hour)
			f.Sender("op-a", "c1")
			f.Sender("op-a", "c2")
			test.run(t, f)
		})
	}
}

func testUpdate(t *testing.T, f *Fixture) {
	ctx := context.Background()
	boom := errors.New("boom")
	err := f.Store.Update(ctx, func(tx *ledger.Tx) error {
		require.NoError(t, tx.SetSetting("a", []byte("1")))
		return boom
	})
	require.ErrorIs(t, err, boom)
	err = f.Store.Update(ctx, func(tx *ledger.Tx) error {
		require.NoError(t, tx.SetSetting("b", []byte("1")))
		_, err := tx.Exec(`INSERT INTO nowhere (x) VALUES (1)`)
		return err
	})
	require.Error(t, err)
	f.View(func(tx *ledger.Tx) error {
		for _, name := range []string{"a", "b"} {
			_, ok, err := tx.Setting(name)
			require.NoError(t, err)
			assert.False(t, ok)
		}
		return nil
	})
	require.Error(t, f.Store.View(ctx, func(tx *ledger.Tx) error { return tx.SetSetting("c", nil) }), "a view must not write")
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	require.ErrorIs(t, f.Store.Update(cancelled, func(*ledger.Tx) error { return nil }), context.Canceled)
}

// testSerial adds one to a counter from many sides; some of them fail.
func testSerial(t *testing.T, f *Fixture) {
	f.Update(func(tx *ledger.Tx) error { return tx.SetSetting("n", []byte("0")) })
	var wg sync.WaitGroup
	for i := range 60 {
		wg.Go(func() {
			err := f.Store.Update(context.Background(), func(tx *ledger.Tx) error {
				raw, _, err := tx.Setting("n")
				if err != nil {
					return err
				}
				var n int
				if _, err := fmt.Sscan(string(raw), &n); err != nil {
					return err
				}
				if err := tx.SetSetting("n", fmt.Append(nil, n+1)); err != nil {
					return err
				}
				if i%3 == 0 {
					return errors.New("undone")
				}
				return nil
			})
			assert.Equal(t, i%3 == 0, err != nil)
		})
	}
	wg.Wait()
	f.View(func(tx *ledger.Tx) error {
		raw, ok, err := tx.Setting("n")
		assert.True(t, ok)
		assert.Equal(t, "40", string(raw))
		return err
	})
}

func testSettings(t *testing.T, f *Fixture) {
	for _, value := range []string{"one", "two"} {
		f.Update(func(tx *ledger.Tx) error { return tx.SetSetting("s", []byte(value)) })
		f.View(func(tx *ledger.Tx) error {
			got, ok, err := tx.Setting("s")
			assert.True(t, ok)
			assert.Equal(t, value, string(got))
			return err
		})
	}
}

func testVersions(t *testing.T, f *Fixture) {
	f.Operator("op-b", time.Hour)
	changes, cancel := f.Store.Changes()
	defer cancel()
	select {
	case <-changes: // a poll that has just begun to look
	default:
	}
	var before ledger.Version
	f.View(func(tx *ledger.Tx) (err error) {
		before, err = tx.Version()
		return err
	})
	assert.EqualValues(t, 1, before.Epoch)
	f.Update(func(tx *ledger.Tx) error {
		require.ErrorIs(t, tx.LockOperator("op-none"), ledger.ErrNotFound)
		require.NoError(t, tx.LockOperator("op-a"))
		v, err := tx.NextVersion("op-a")
		assert.Equal(t, ledger.Version{Epoch: 1, Number: before.Number + 1}, v)
		return err
	})
	<-changes
	f.View(func(tx *ledger.Tx) error {
		var a, b int64
		require.NoError(t, tx.QueryRow(`SELECT change_number FROM operators WHERE id = 'op-a'`).Scan(&a))
		require.NoError(t, tx.QueryRow(`SELECT change_number FROM operators WHERE id = 'op-b'`).Scan(&b))
		assert.Equal(t, before.Number+1, a)
		assert.Zero(t, b)
		return nil
	})
}

func testAudit(t *testing.T, f *Fixture) {
	for i := range 3 {
		f.Update(func(tx *ledger.Tx) error {
			return tx.Audit(audit.Entry{OrgID: Org, Actor: "ann", Event: "e", Object: fmt.Sprint(i), Detail: map[string]any{"n": i}})
		})
	}
	f.View(func(tx *ledger.Tx) error {
		rows, err := tx.Query(`SELECT at, object, detail FROM audit WHERE event = 'e' ORDER BY sequence`)
		require.NoError(t, err)
		defer func() { assert.NoError(t, rows.Close()) }()
		for i := range 3 {
			require.True(t, rows.Next())
			var at int64
			var object, detail string
			require.NoError(t, rows.Scan(&at, &object, &detail))
			assert.Equal(t, Epoch.Unix(), at)
			assert.Equal(t, fmt.Sprint(i), object)
			assert.JSONEq(t, fmt.Sprintf(`{"n":%d}`, i), detail)
		}
		return rows.Err()
	})
}

// refused asserts the reason of a refusal.
func refused(t *testing.T, reason string, err error) {
	t.Helper()
	var r *ledger.Refusal
	require.ErrorAs(t, err, &r)
	require.Equal(t, reason, r.Reason)
}
