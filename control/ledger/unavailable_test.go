// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestUnavailable(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"a refusal":             {&Refusal{Reason: ReasonTokenSpent}, false},
		"not found":             {ErrNotFound, false},
		"connection lost":       {fmt.Errorf("reading: %w", driver.ErrBadConn), true},
		"too many connections":  {&pgconn.PgError{Code: "53300"}, true},
		"server is stopping":    {&pgconn.PgError{Code: "57P01"}, true},
		"a violated constraint": {&pgconn.PgError{Code: "23505"}, false},
		"a closed connection":   {fmt.Errorf("beginning to read: %w", unused{}), true},
		"something else":        {errors.New("x"), false},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, Unavailable(tc.err)) })
	}
}

// unused is an error of pgx that says that nothing was sent.
type unused struct{}

func (unused) Error() string     { return "conn closed" }
func (unused) SafeToRetry() bool { return true }

// A full disk is told from a mistake: SQLite says so by its code.
func TestFullDiskIsUnavailable(t *testing.T) {
	store, err := Open(t.Context(), Options{DataDir: t.TempDir(), Now: time.Now})
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	err = store.Update(t.Context(), func(tx *Tx) error {
		if _, err := tx.Exec(`PRAGMA max_page_count = 1`); err != nil {
			return err
		}
		return tx.SetSetting("filler", make([]byte, 1<<20))
	})
	require.Error(t, err)
	assert.True(t, Unavailable(err), "%v", err)
}
