// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAges(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	require.Equal(t, "now", ago(now, now))
	require.Equal(t, "5 min ago", ago(now.Add(-5*time.Minute), now))
	require.Equal(t, "ended 5 min ago", until(now.Add(-5*time.Minute), now))
	require.Equal(t, "in 30 d", until(now.Add(30*24*time.Hour), now))
}
