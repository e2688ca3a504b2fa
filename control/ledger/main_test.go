// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/ledger/ledgertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// openSQLite opens a store in dir.
func openSQLite(tb testing.TB, dir string, clock *ledgertest.Clock) *ledger.Store {
	tb.Helper()
	s, err := ledger.Open(context.Background(), ledger.Options{DataDir: dir, Now: clock.Now})
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, s.Close()) })
	return s
}
