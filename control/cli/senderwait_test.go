// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/controlclient"
)

// sender wait ends on data that came with the present certificate or since the
// command began, never on what was accepted before a sender was let in again.
func TestWaitAfterALetIn(t *testing.T) {
	const operator, name = "op-01", "op-01-export-c1"
	begin := time.Now().Truncate(time.Second).Add(-10 * time.Minute)
	at := func(minutes int) time.Time { return begin.Add(time.Duration(minutes) * time.Minute) }
	f := &fleetStory{clock: &stepClock{now: begin}}
	f.start(t)
	f.env.poll = time.Millisecond
	f.create(1)
	receiver := f.enrollHolder(operator, "")
	f.connect("c1", operator)
	accepted := func(at time.Time) { f.tellAccepted(receiver, name, at) }
	wait := func(timeout string) result {
		return f.run("sender", "wait", "c1", "--operator", operator, "--timeout", timeout)
	}
	tooLong := func() {
		t.Helper()
		r := wait("50ms")
		assert.Equal(t, exitNotConfirmed, r.code, r.stdout)
		assert.NotContains(t, r.stdout, "its data was accepted")
	}

	tooLong()
	accepted(at(0))
	assert.Contains(t, f.exec(exitDone, "sender", "wait", "c1", "--operator", operator), "its data was accepted at ")

	f.clock.Set(at(1))
	f.exec(exitNotConfirmed, "sender", "revoke", "c1", "--operator", operator, "--wait", "0s")
	f.exec(exitDone, "sender", "restore", "c1", "--operator", operator)
	tooLong()
	f.clock.Set(at(2))
	f.enrollHolder(operator, "c1")
	tooLong()
	assert.Contains(t, wait("50ms").stderr, "; what was accepted at "+date(at(0))+" came before it was let in as it is now\n")
	accepted(at(2))
	f.exec(exitDone, "sender", "wait", "c1", "--operator", operator)

	f.clock.Set(at(3))
	f.exec(exitNotConfirmed, "sender", "revoke", "c1", "--operator", operator, "--reason", "hold", "--wait", "0s")
	f.exec(exitDone, "sender", "restore", "c1", "--operator", operator)
	tooLong()
	done := make(chan result)
	go func() { done <- wait("10m") }()
	for minute := 4; ; minute++ { // whenever its first look was
		accepted(at(minute))
		select {
		case r := <-done:
			assert.Equal(t, exitDone, r.code, r.stderr)
			return
		default:
			require.Less(t, minute, 100_000)
		}
	}
}

// tellAccepted reports one sender as last accepted at a time, under the present
// policy.
func (f *fleetStory) tellAccepted(receiver controlclient.Holder, name string, at time.Time) {
	f.t.Helper()
	answer, err := f.client.Policy(f.t.Context(), receiver, "", 0)
	require.NoError(f.t, err)
	var version controlapi.Version
	require.NoError(f.t, json.Unmarshal(decoded(f.t, strings.Split(answer.JWS, ".")[1]), &version))
	require.NoError(f.t, f.client.Report(f.t.Context(), receiver, &controlapi.Report{
		Instance: "9f1c", Version: "test", StartedAt: f.clock.Now(),
		Policy:  controlapi.ReportPolicy{Version: version, AppliedAt: f.clock.Now()},
		Senders: []controlapi.ReportSender{{Name: name, LastAcceptedAt: &at, Accepted: controlapi.SignalCounts{Logs: 1}}},
	}))
}
