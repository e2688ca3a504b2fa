// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/audit"
	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/ledger/ledgertest"
)

func open(dir string) (*ledger.Store, error) {
	return ledger.Open(context.Background(), ledger.Options{DataDir: dir, Now: ledgertest.NewClock().Now})
}

func TestSecondServerIsRefused(t *testing.T) {
	dir := t.TempDir()
	first, err := open(dir)
	require.NoError(t, err)
	_, err = open(dir)
	require.EqualError(t, err, "data directory "+dir+" is in use by another ikhnos server")
	require.NoError(t, first.Close())
	second, err := open(dir)
	require.NoError(t, err)
	require.NoError(t, second.Close())
}

func TestUnusableDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := open(file)
	require.ErrorContains(t, err, "data directory "+file)
	_, err = open("")
	require.Error(t, err)

	if os.Geteuid() == 0 {
		t.Skip("root may write everywhere")
	}
	readOnly := t.TempDir()
	require.NoError(t, os.Chmod(readOnly, 0o500))
	_, err = open(readOnly)
	require.ErrorContains(t, err, "data directory "+readOnly+" is not writable")
}

// Files are private whatever the umask; paths may hold anything.
func TestFiles(t *testing.T) {
	old := syscall.Umask(0)
	t.Cleanup(func() { syscall.Umask(old) })
	for _, name := range []string{"plain", "with space", "100%?&#x=1", "ünïcode"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), name)
			s, err := open(dir)
			require.NoError(t, err)
			defer func() { require.NoError(t, s.Close()) }()
			require.NoError(t, s.Update(t.Context(), func(tx *ledger.Tx) error { return tx.SetSetting("a", nil) }))
			files, err := os.ReadDir(dir)
			require.NoError(t, err)
			var names []string
			for _, f := range files {
				names = append(names, f.Name())
				info, err := f.Info()
				require.NoError(t, err)
				assert.Equal(t, os.FileMode(0o600), info.Mode().Perm(), f.Name())
			}
			assert.ElementsMatch(t, []string{"ikhnos.db", "ikhnos.db-shm", "ikhnos.db-wal", "ikhnos.lock"}, names)
			info, err := os.Stat(dir)
			require.NoError(t, err)
			assert.Equal(t, os.FileMode(0o700), info.Mode().Perm())
		})
	}
}

func TestRestart(t *testing.T) {
	dir, clock := t.TempDir(), ledgertest.NewClock()
	s, err := open(dir)
	require.NoError(t, err)
	f := ledgertest.New(t, s, clock)
	f.Operator("op-a", 365*24*time.Hour)
	f.Sender("op-a", "c1")
	token := f.Token("op-a", ledger.RoleSender, "c1")
	first, err := f.Enroll(token, "k")
	require.NoError(t, err)
	proof := f.Proof(first.Entry)
	require.NoError(t, s.Update(t.Context(), func(tx *ledger.Tx) error { return tx.UseProof("op-a", 9, proof.JTI, proof.Expires) }))
	require.NoError(t, s.Close())
	require.NoError(t, s.Close(), "closing twice is harmless")
	require.ErrorIs(t, s.Update(t.Context(), func(*ledger.Tx) error { return nil }), ledger.ErrClosed)

	f = ledgertest.New(t, openSQLite(t, dir, clock), clock)
	again, err := f.Enroll(token, "k")
	require.NoError(t, err)
	assert.Equal(t, first.Entry, again.Entry)
	err = f.Store.Update(t.Context(), func(tx *ledger.Tx) error { return tx.UseProof("op-a", 9, proof.JTI, proof.Expires) })
	require.ErrorIs(t, err, ledger.ErrReplayed, "used before the restart")
	_, err = f.Store.Verify(t.Context(), "op-a")
	require.NoError(t, err)
}

func TestNewerDatabaseIsRefused(t *testing.T) {
	dir := t.TempDir()
	s, err := open(dir)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	db, err := sql.Open("sqlite", filepath.Join(dir, ledger.DatabaseFile))
	require.NoError(t, err)
	_, err = db.Exec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, 1)`)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	_, err = open(dir)
	require.ErrorContains(t, err, "the database has schema version 99999")
	require.ErrorContains(t, err, "use a newer ikhnos")
}

// A failing and a panicking update in a group undo themselves and nobody else,
// and an update that waits can be given up.
func TestGroup(t *testing.T) {
	s := openSQLite(t, t.TempDir(), ledgertest.NewClock())
	running, release := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		assert.NoError(t, s.Update(context.Background(), func(tx *ledger.Tx) error {
			close(running)
			<-release
			return tx.SetSetting("first", nil)
		}))
	})
	<-running
	ctx, cancel := context.WithCancel(context.Background())
	wg.Go(func() {
		assert.ErrorIs(t, s.Update(ctx, func(*ledger.Tx) error { panic("must not run") }), context.Canceled)
		close(release)
	})
	cancel()
	wg.Go(func() {
		err := s.Update(context.Background(), func(tx *ledger.Tx) error {
			assert.NoError(t, tx.SetSetting("panic", nil))
			panic("a mistake")
		})
		assert.ErrorContains(t, err, "a mistake")
	})
	wg.Go(func() {
		err := s.Update(context.Background(), func(tx *ledger.Tx) error {
			assert.NoError(t, tx.SetSetting("error", nil))
			return errors.New("no")
		})
		assert.EqualError(t, err, "no")
	})
	wg.Go(func() {
		assert.NoError(t, s.Update(context.Background(), func(tx *ledger.Tx) error { return tx.SetSetting("last", nil) }))
	})
	wg.Wait()
	require.NoError(t, s.View(t.Context(), func(tx *ledger.Tx) error {
		for name, want := range map[string]bool{"first": true, "panic": false, "error": false, "last": true} {
			_, ok, err := tx.Setting(name)
			require.NoError(t, err)
			assert.Equal(t, want, ok, name)
		}
		return nil
	}))
}

// Erased means erased: the sealed key is in none of the files, while the server
// runs.
func TestEraseCA(t *testing.T) {
	dir, clock := t.TempDir(), ledgertest.NewClock()
	f := ledgertest.New(t, openSQLite(t, dir, clock), clock)
	f.Operator("op-a", 365*24*time.Hour)
	secret := []byte("sealed op-a")
	found := func() (n int) {
		for _, name := range []string{"ikhnos.db", "ikhnos.db-wal"} {
			raw, err := os.ReadFile(filepath.Join(dir, name))
			require.NoError(t, err)
			n += bytes.Count(raw, secret)
		}
		return n
	}
	require.NotZero(t, found())
	f.Update(func(tx *ledger.Tx) error { return tx.EraseCA("op-a") })
	assert.Zero(t, found())
}

func TestAuditSink(t *testing.T) {
	var got []audit.Entry
	s, err := ledger.Open(t.Context(), ledger.Options{
		DataDir: t.TempDir(), Now: ledgertest.NewClock().Now,
		AuditSink: func(e audit.Entry, at time.Time) {
			assert.Equal(t, ledgertest.Epoch, at)
			got = append(got, e)
		},
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	entry := audit.Entry{Actor: "ann", Event: "e"}
	require.NoError(t, s.Update(t.Context(), func(tx *ledger.Tx) error { return tx.Audit(entry) }))
	require.Error(t, s.Update(t.Context(), func(tx *ledger.Tx) error {
		return errors.Join(tx.Audit(entry), errors.New("undone"))
	}))
	assert.Equal(t, []audit.Entry{entry}, got, "only what was committed")
}

// A full disk fails the updates it meets, all of a group, and leaves the store
// as it was; with room again it goes on.
func TestFullDisk(t *testing.T) {
	s := openSQLite(t, t.TempDir(), ledgertest.NewClock())
	pages := func(n int) {
		require.NoError(t, s.Update(t.Context(), func(tx *ledger.Tx) error {
			var got int
			return tx.QueryRow(fmt.Sprintf("PRAGMA max_page_count = %d", n)).Scan(&got)
		}))
	}
	pages(1) // not below what is in use
	var wg sync.WaitGroup
	var failed atomic.Int32
	for i := range 8 {
		wg.Go(func() {
			err := s.Update(context.Background(), func(tx *ledger.Tx) error {
				return tx.SetSetting(fmt.Sprint("big", i), make([]byte, 1<<20))
			})
			if assert.Error(t, err) {
				failed.Add(1)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 8, failed.Load())
	pages(1 << 20)
	require.NoError(t, s.Update(t.Context(), func(tx *ledger.Tx) error { return tx.SetSetting("big0", make([]byte, 1<<20)) }))
	require.NoError(t, s.View(t.Context(), func(tx *ledger.Tx) error {
		_, ok, err := tx.Setting("big1")
		assert.False(t, ok)
		return err
	}))
}
