// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/test/testbed"
)

// until waits for an instant of the clock, and a second more because what it is
// compared with has whole seconds.
func until(t testing.TB, instant time.Time) {
	t.Helper()
	testbed.Eventually(t, instant.Format(time.TimeOnly), func(context.Context) error {
		if time.Now().Before(instant.Add(time.Second)) {
			return errors.New("not yet")
		}
		return nil
	})
}

// renewed waits for a sender's next certificate and returns when it was issued.
func (n *sender) renewed(entries int) time.Time {
	n.t.Helper()
	testbed.Eventually(n.t, "a renewal", func(context.Context) error {
		if n.entries() == entries {
			return errors.New("not yet")
		}
		return nil
	}, n.Process)
	return n.server.Entries(n.operatorID, n.holder)[0].IssuedAt
}

// TestPaused is trap-8 and case-14: a process that is stopped across the instant of
// its renewal renews as soon as it goes on.
func TestPaused(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	t.Parallel()
	s := testbed.StartServer(t, "--leaf-lifetime", "1h")
	s.Central(centralID)
	n := newSender(t, s, &operator{id: centralID, grpc: "127.0.0.1:1", http: "127.0.0.1:1"}, "c1")
	n.Start() // enrols
	for ahead := 5 * time.Second; ; ahead *= 2 {
		n.Kill()
		before, due := n.entries(), time.Now().Add(ahead)
		n.dueAt(due, due.Add(time.Minute))
		n.Start()
		n.Pause()
		if time.Now().After(due.Add(-time.Second)) && ahead < time.Minute {
			continue // too slow a start: it may have renewed before it was stopped
		}
		until(t, due)
		require.Equal(t, before, n.entries(), "it is stopped")
		resumed := time.Now()
		n.Resume()
		issued := n.renewed(before)
		assert.Less(t, issued.Sub(resumed), 30*time.Second, "and not only when it looks again, once a minute")
		t.Logf("renewed %s after it went on", time.Since(resumed).Round(time.Millisecond))
		return
	}
}

// TestServerAway: the control server is down from before the window of a renewal
// until after it, and the operator's collector starts again meanwhile. Data goes on,
// the sender says that it is overdue, and renews when the server is back. That 19
// days pass so is proven with a clock of the test in internal/holder.
func TestServerAway(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	t.Parallel()
	s := testbed.StartServer(t, "--leaf-lifetime", "1h")
	sink := testbed.StartSink(t, nil)
	central := startCentral(t, s, sink)
	n := newSender(t, s, central, "c1")
	n.Start()
	require.NoError(t, testbed.SendGRPC(t.Context(), t, n.grpc, nil, "before"))
	sink.Wait("before")
	n.Stop()
	due := time.Now().Add(time.Second)
	n.dueAt(due, due.Add(3*time.Second))
	before := n.entries()

	s.Stop()
	central.Kill() // it has its policy and its certificate on disk
	central.Start()
	n.Start()
	overGRPC := testbed.StartLoad(t, n.grpc, "grpc", 2, 50*time.Millisecond)
	overHTTP := testbed.StartLoad(t, n.http, "http", 2, 50*time.Millisecond)
	n.WaitLog("certificate could not be renewed", "server_unreachable", `"state": "overdue"`)
	until(t, due.Add(3*time.Second))
	s.Start()
	n.renewed(before)
	n.WaitLog("certificate state changed", `"state": "usable"`)
	ids := append(overGRPC.Stop(), overHTTP.Stop()...)
	sink.Wait(ids...)
	assert.Empty(t, n.Logged("Exporting failed"))
	assert.Equal(t, before+1, n.entries())
}
