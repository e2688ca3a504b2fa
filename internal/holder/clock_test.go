// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package holder

import (
	"context"
	"crypto/x509"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/testpki/testserver"
)

// case-14: a leaf that begins in our future is waited for, up to a bound.
func TestAwaitValid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(Settings{Now: time.Now})
		start := time.Now()
		leaf := &x509.Certificate{NotBefore: start.Add(30 * time.Second), NotAfter: start.Add(time.Hour)}
		require.NoError(t, h.awaitValid(t.Context(), leaf))
		require.Equal(t, 30*time.Second, time.Since(start))

		leaf.NotBefore = time.Now().Add(clockWait + time.Second)
		require.ErrorIs(t, h.awaitValid(t.Context(), leaf), errNotYet)
		leaf.NotBefore = time.Now().Add(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, h.awaitValid(ctx, leaf), errNotYet)
		leaf.NotAfter = time.Now().Add(-time.Second)
		require.ErrorIs(t, h.awaitValid(t.Context(), leaf), errEnded)
	})
}

// trap-7: with a clock that is a day wrong the old pair stays, nothing is issued
// twice, and the state says why.
func TestWrongClock(t *testing.T) {
	for name, wrong := range map[string]time.Duration{"a day behind": -24 * time.Hour, "40 days ahead": 40 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			server := testserver.New(t)
			set := settings(t, server, "c1")
			set.Now = func() time.Time { return time.Now().Add(wrong) }
			h := New(set)
			for range 3 {
				_, err := h.Attempt(t.Context())
				requireFailure(t, err, OutcomeClockSkew, string(controlapi.ReasonClockSkew))
			}
			require.Len(t, server.Entries(), 1)
			h.set.Now = time.Now
			_, err := h.Attempt(t.Context())
			require.NoError(t, err)
			require.Len(t, server.Entries(), 1, "the one that was waiting")
		})
	}
	t.Run("25 days ahead", func(t *testing.T) {
		server := testserver.New(t)
		set := settings(t, server, "c1")
		set.Now = func() time.Time { return time.Now().Add(25 * 24 * time.Hour) }
		h := New(set)
		_, err := h.Attempt(t.Context())
		require.NoError(t, err)
		require.Greater(t, h.UntilDue(), 9*24*time.Hour, "a new leaf is not due at once")
	})
}
