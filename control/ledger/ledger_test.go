// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/ledger/ledgertest"
)

// trap-4, trap-11, trap-15 and the rest of the suite, on both databases. CONTINUUM_SOAK
// gives the race for one token its full count.
func TestSQLite(t *testing.T) {
	ledgertest.Run(t, func(t *testing.T, clock *ledgertest.Clock) *ledger.Store {
		return openSQLite(t, t.TempDir(), clock)
	})
}

func TestPostgres(t *testing.T) {
	base := postgresURL(t)
	n := 0
	ledgertest.Run(t, func(t *testing.T, clock *ledgertest.Clock) *ledger.Store {
		n++
		return openPostgres(t, freshDatabase(t, base, fmt.Sprintf("ledgertest_%d", n)), clock)
	})
}

// TestPostgresReplicas starts two servers at once on an empty database: both see
// each other's changes.
func TestPostgresReplicas(t *testing.T) {
	database := freshDatabase(t, postgresURL(t), "ledgertest_replicas")
	clock := ledgertest.NewClock()
	stores := make(chan *ledger.Store)
	for range 2 {
		go func() {
			s, err := ledger.Open(context.Background(), ledger.Options{DatabaseURL: database, Now: clock.Now})
			if err != nil {
				t.Error(err)
			}
			stores <- s
		}()
	}
	one, two := <-stores, <-stores
	require.NotNil(t, one)
	require.NotNil(t, two)
	t.Cleanup(func() { require.NoError(t, one.Close()); require.NoError(t, two.Close()) })
	f := ledgertest.New(t, one, clock)
	changes, cancel := two.Changes()
	defer cancel()
	f.Update(func(tx *ledger.Tx) error {
		_, err := tx.NextVersion()
		return err
	})
	<-changes
}

func postgresURL(t *testing.T) string {
	base := os.Getenv("CONTINUUM_TEST_POSTGRES")
	if base == "" {
		t.Skip("CONTINUUM_TEST_POSTGRES holds no URL of a PostgreSQL whose user may create databases")
	}
	return base
}

func openPostgres(t *testing.T, database string, clock *ledgertest.Clock) *ledger.Store {
	s, err := ledger.Open(context.Background(), ledger.Options{DatabaseURL: database, Now: clock.Now})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// freshDatabase makes an empty database for one test and returns its URL.
func freshDatabase(t *testing.T, base, name string) string {
	ctx := context.Background()
	run := func(query string) {
		conn, err := pgx.Connect(ctx, base)
		require.NoError(t, err)
		defer func() { require.NoError(t, conn.Close(ctx)) }()
		_, err = conn.Exec(ctx, query)
		require.NoError(t, err)
	}
	run("DROP DATABASE IF EXISTS " + name)
	run("CREATE DATABASE " + name)
	t.Cleanup(func() { run("DROP DATABASE " + name + " WITH (FORCE)") })
	u, err := url.Parse(base)
	require.NoError(t, err)
	u.Path = "/" + name
	return u.String()
}
