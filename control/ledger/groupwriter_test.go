// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A bare update that fails after it has written takes nothing with it: the others
// of its group run again and succeed.
func TestBareUpdateThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := Open(t.Context(), Options{DataDir: t.TempDir(), Now: time.Now})
		require.NoError(t, err)
		defer func() { require.NoError(t, store.Close()) }()
		own := errors.New("its own")
		const good = 5
		var runs, signed [good]int
		var fates [good + 1]error
		var waiting sync.WaitGroup
		set := func(name string, then error) func(*Tx) error {
			return func(tx *Tx) error { return errors.Join(tx.SetSetting(name, []byte("x")), then) }
		}
		var once sync.Once
		err = store.backend.update(t.Context(), false, func(tx *Tx) error {
			once.Do(func() {
				for i := range good {
					waiting.Go(func() {
						fates[i] = store.backend.update(t.Context(), i%2 == 0, func(tx *Tx) error {
							runs[i]++
							return set(fmt.Sprint("good-", i), nil)(tx)
						}, func() error {
							signed[i]++
							return nil
						})
					})
				}
				synctest.Wait() // they wait for this group
				waiting.Go(func() { fates[good] = store.backend.update(t.Context(), true, set("bad", own), nil) })
				synctest.Wait()
			})
			return set("first", nil)(tx)
		}, nil)
		require.NoError(t, err)
		waiting.Wait()
		require.ErrorIs(t, fates[good], own)
		twice := 0
		require.NoError(t, store.View(t.Context(), func(tx *Tx) error {
			for i := range good {
				require.NoError(t, fates[i], i)
				_, found, err := tx.Setting(fmt.Sprint("good-", i))
				assert.True(t, found, i)
				require.NoError(t, err)
				assert.Equal(t, runs[i], signed[i], "each run is signed anew")
				if runs[i] == 2 {
					twice++
				}
			}
			_, found, err := tx.Setting("first")
			assert.True(t, found)
			require.NoError(t, err)
			_, found, err = tx.Setting("bad")
			assert.False(t, found)
			return err
		}))
		assert.Positive(t, twice, "they stood in the group that was undone")
	})
}

// What is made beside a commit does not leave when the commit fails, and a failure
// to make it is told although the commit stands.
func TestMeanwhile(t *testing.T) {
	store, err := Open(t.Context(), Options{DataDir: t.TempDir(), Now: time.Now})
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	own := errors.New("its own")
	for _, side := range []bool{false, true} {
		err = store.backend.update(t.Context(), side, func(tx *Tx) error { return tx.SetSetting("a", []byte("x")) },
			func() error { return own })
		require.ErrorIs(t, err, own)
		called := false
		err = store.backend.update(t.Context(), side, func(*Tx) error { return own }, func() error {
			called = true
			return nil
		})
		require.ErrorIs(t, err, own)
		assert.False(t, called, "nothing was written to sign for")
		err = store.backend.update(t.Context(), side, func(tx *Tx) error {
			if _, err := tx.Exec(`PRAGMA defer_foreign_keys = ON`); err != nil { // until the commit
				return err
			}
			_, err := tx.Exec(`INSERT INTO enrollment_tokens (id, org_id, operator_id, role, holder_id, secret_hash, epoch,
				created_by, created_at, expires_at, state, spent_spki) VALUES ('t', '', 'unknown', '', '', 'x', 1, '', 0, 0, '', '')`)
			return err
		}, func() error {
			called = true
			return nil
		})
		require.ErrorContains(t, err, "committing")
		assert.True(t, called, "beside the commit that failed")
	}
}
