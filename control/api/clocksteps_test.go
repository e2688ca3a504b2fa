// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/signedpolicy"
)

// steps are what happens to the clock of a server: it jumps a day ahead, and back
// to an hour before it began.
var steps = []struct {
	name string
	by   time.Duration
}{{"no step", 0}, {"forward a day", 24 * time.Hour}, {"back an hour", -25 * time.Hour}}

// TestClockStepsAndLeaves: after each step leaves are enrolled and renewed, with
// those from before as well; none is born inside its window (contract, section 3).
func TestClockStepsAndLeaves(t *testing.T) {
	h := newHarness(t)
	h.operator("op-eu", "c1")
	var all []*holder
	for _, step := range steps {
		h.clock.add(step.by)
		now := controlapi.Seconds(h.clock.now())
		for _, old := range append(all, h.holder("op-eu", "c1")) {
			key := newKey(t)
			a := h.renew(old, key)
			require.Equal(t, http.StatusOK, a.StatusCode, "%s: %s", step.name, a.body)
			next := h.holding(a, key)
			assert.Equal(t, now.Add(30*24*time.Hour), next.NotAfter, step.name)
			assert.False(t, next.RenewAfter.Before(now.Add(10*24*time.Hour)), step.name)
			assert.True(t, next.RenewAfter.Before(now.Add(11*24*time.Hour)), step.name)
			assert.Equal(t, next.RenewAfter.Add(48*time.Hour), next.RenewBy, step.name)
			assert.False(t, issuerOf(t, next).NotBefore.After(now), step.name)
			all = append(all, next)
		}
	}
	_, err := h.store.Verify(t.Context(), "op-eu")
	require.NoError(t, err)
}

// TestClockStepsAndProofs: a proof that was used is good at no later time of the
// clock.
func TestClockStepsAndProofs(t *testing.T) {
	h := newHarness(t)
	h.operator("op-eu")
	receiver := h.holder("op-eu", "")
	req := h.proven(receiver, http.MethodGet, controlapi.RoutePolicy, "", nil)
	again := func() *answered { return h.send(req.Clone(t.Context())) }
	require.Equal(t, http.StatusOK, again().StatusCode)
	refused(t, again(), controlapi.ReasonProofReplayed)
	h.clock.add(24 * time.Hour)
	refused(t, again(), controlapi.ReasonClockSkew)
	require.Equal(t, http.StatusOK, h.policy(receiver, "", "").StatusCode)
	h.clock.add(-25 * time.Hour)
	refused(t, again(), controlapi.ReasonClockSkew)
	require.Equal(t, http.StatusOK, h.policy(receiver, "", "").StatusCode)
	h.clock.add(time.Hour)
	refused(t, again(), controlapi.ReasonProofReplayed)
}

// TestClockStepsAndRevocation: policies go by their number alone; a revocation is
// in force, and the list of it good, whatever the clock did.
func TestClockStepsAndRevocation(t *testing.T) {
	h := newHarness(t)
	h.operator("op-eu", "c1", "c2", "c3")
	receiver := h.holder("op-eu", "")
	ca := issuerOf(t, receiver)
	var last controlapi.Version
	for i, step := range steps {
		held := h.holder("op-eu", []string{"c1", "c2", "c3"}[i])
		before := h.policy(receiver, "", "")
		crlOf(t, h, "op-eu", ca)
		h.clock.add(step.by)
		now := controlapi.Seconds(h.clock.now())
		assert.False(t, crlOf(t, h, "op-eu", ca).ThisUpdate.After(now), "%s: a list that is valid now", step.name)

		admin1[controlapi.Receipt](h, http.MethodPost, "/operators/op-eu/senders/"+[]string{"c1", "c2", "c3"}[i]+"/revoke", operators.RevokeRequest{Reason: operators.RevokeCompromised})
		a := h.policy(receiver, before.Header.Get("ETag"), "?wait=60")
		require.Equal(t, http.StatusOK, a.StatusCode, "%s: %s", step.name, a.body)
		p, err := signedpolicy.Verify(string(a.body), ca)
		require.NoError(t, err)
		assert.True(t, last.Less(p.Version), step.name)
		last = p.Version
		assert.Equal(t, now, p.IssuedAt, step.name)
		assert.Contains(t, p.RevokedSerials, held.Serial, step.name)
		refused(t, h.renew(held, newKey(t)), controlapi.ReasonLeafRevoked)
		list := crlOf(t, h, "op-eu", ca)
		assert.Len(t, list.RevokedCertificateEntries, i+1, step.name)
		assert.Equal(t, now.Add(24*time.Hour), list.NextUpdate.UTC(), step.name)
	}
}

// TestClockStepsAndLiveness: what is heard after the clock was set back is heard
// now, and silence shows after as long as ever.
func TestClockStepsAndLiveness(t *testing.T) {
	h := newHarness(t)
	h.operator("op-eu")
	secret := admin1[operators.HeartbeatSecret](h, http.MethodPost, "/operators/op-eu/heartbeat", nil).Secret
	for _, step := range steps {
		h.clock.add(step.by)
		beat := h.send(h.request(http.MethodPost, controlapi.RouteHeartbeat, secret, nil))
		require.Equal(t, http.StatusOK, beat.StatusCode)
		health := admin1[operators.Operator](h, http.MethodGet, "/operators/op-eu", nil).Health
		assert.Equal(t, "online", health.State, step.name)
		assert.Equal(t, controlapi.Seconds(h.clock.now()), *health.LastSeenAt, step.name)
	}
	h.clock.add(181 * time.Second)
	assert.Equal(t, "offline", admin1[operators.Operator](h, http.MethodGet, "/operators/op-eu", nil).Health.State)
}

// TestClockStepsAndThrottle: a window of failures is a minute, not until the clock
// is where it was.
func TestClockStepsAndThrottle(t *testing.T) {
	h := newHarness(t)
	try := func() *answered { return h.send(h.request(http.MethodGet, "/api/v1/orgs", "wrong", nil)) }
	for range failuresPerWindow {
		refused(t, try(), controlapi.ReasonAdminUnauthenticated)
	}
	refused(t, try(), controlapi.ReasonRateLimited)
	h.clock.add(-time.Hour)
	refused(t, try(), controlapi.ReasonAdminUnauthenticated)
}

// TestClockStepsAndEpochs: after a restore the renewals of an operator wait for
// its first report, not for a time; every epoch is later than the one before.
func TestClockStepsAndEpochs(t *testing.T) {
	h := newHarness(t)
	h.operator("op-eu", "c1")
	receiver, sender := h.holder("op-eu", ""), h.holder("op-eu", "c1")
	h.clock.add(time.Minute)
	require.Equal(t, http.StatusNoContent, h.report(receiver, reportOf("i1", controlapi.Version{Epoch: 1})).StatusCode)
	var last controlapi.Version
	for _, step := range steps {
		h.clock.add(time.Minute)
		var version ledger.Version
		require.NoError(t, h.store.Update(t.Context(), func(tx *ledger.Tx) (err error) {
			version, err = tx.NewEpoch()
			return err
		}))
		assert.Less(t, last.Epoch, version.Epoch, step.name)
		last = controlapi.Version(version)
		h.clock.add(step.by)
		refused(t, h.renew(sender, newKey(t)), controlapi.ReasonUnavailable)
		refused(t, h.renew(receiver, newKey(t)), controlapi.ReasonUnavailable)
		p, err := signedpolicy.Verify(string(h.policy(receiver, "", "").body), issuerOf(t, receiver))
		require.NoError(t, err)
		assert.Equal(t, version.Epoch, p.Epoch, step.name)
		first := reportOf("i1", p.Version)
		first.Denied = &controlapi.ReportDenied{Names: []string{}, Serials: []string{}}
		require.Equal(t, http.StatusNoContent, h.report(receiver, first).StatusCode)
		require.Equal(t, http.StatusOK, h.renew(sender, newKey(t)).StatusCode, step.name)
	}
}
