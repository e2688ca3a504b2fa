// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package holder

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/internal/certfile"
	"github.com/ikhnos/continuum/internal/controlclient"
	"github.com/ikhnos/continuum/internal/testpki"
	"github.com/ikhnos/continuum/internal/testpki/testserver"
)

// newOffline is a holder with its first leaf, whose clock is now.
func newOffline(t *testing.T, server *testserver.Server, now func() time.Time) *Holder {
	client, err := controlclient.New(&http.Client{Transport: server}, "https://ikhnos.example.com", now)
	require.NoError(t, err)
	token := server.Token("c1")
	h := New(Settings{
		Directory: t.TempDir(), Server: client, Now: now, Random: rand.New(rand.NewPCG(1, 2)).Float64,
		Token: func() (string, error) { return token, nil },
	})
	_, err = h.Attempt(t.Context())
	require.NoError(t, err)
	return h
}

// case-14: the issuer's clock is so far ahead that the new leaf begins in half a
// minute of ours. Until then the pair on disk is the old one.
func TestLeafOfTheFuture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := testserver.NewOffline(t)
		h := newOffline(t, server, time.Now)
		onDisk := func() string {
			g, err := certfile.Load(h.set.Directory)
			require.NoError(t, err)
			leaf, err := g.Leaf()
			require.NoError(t, err)
			require.False(t, time.Now().Before(leaf.NotBefore), "a pair that is not valid yet")
			return serialOf(leaf)
		}
		old := onDisk()
		server.SetClock(func() time.Time { return time.Now().Add(testpki.LeafBackdate + 30*time.Second) })
		ended := make(chan error, 1)
		go func() {
			_, err := h.Attempt(t.Context())
			ended <- err
		}()
		time.Sleep(29 * time.Second)
		require.Empty(t, ended)
		require.Equal(t, old, onDisk())
		require.NoError(t, <-ended)
		require.NotEqual(t, old, onDisk())
		require.Len(t, server.Entries(), 2)
	})
}

// trap-7: around the instant of a renewal the clock jumps a day ahead or back, every
// hour. There is one renewal in the window, and never a moment without a good pair.
func TestJumpingClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const day = 24 * time.Hour
		var jump atomic.Int64
		server := testserver.NewOffline(t)
		h := newOffline(t, server, func() time.Time { return time.Now().Round(0).Add(time.Duration(jump.Load())) })
		time.Sleep(h.UntilDue() - 25*time.Hour)

		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { h.Keep(ctx, func(Look) {}) })
		random := rand.New(rand.NewPCG(7, 7))
		for range 27 {
			jump.Store((random.Int64N(3) - 1) * int64(day))
			time.Sleep(time.Hour)
			require.True(t, h.Usable())
		}
		stop()
		running.Wait()
		require.Len(t, server.Entries(), 2)
		require.Equal(t, server.Entries()[1].Leaf.SerialNumber.Text(16), h.current().leaf.SerialNumber.Text(16), "the new one is in force")
	})
}
