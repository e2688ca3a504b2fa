// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certnameauth

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/ikhnos/continuum/components/extension/certnameauth/internal/senders"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/controlclient"
	"github.com/ikhnos/continuum/internal/testpki"
)

// reported waits for a report that satisfies the test.
func (s *fakeServer) reported(r *rig, is func(controlapi.Report) bool) controlapi.Report {
	r.t.Helper()
	var report controlapi.Report
	require.Eventually(r.t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, r := range slices.Backward(s.reports) {
			if is(r) {
				report = r
				return true
			}
		}
		return false
	}, waitLong, tick)
	return report
}

// A report comes at once after a policy was applied and when a sender is first
// refused under a number; its counts are those of the metrics.
func TestReports(t *testing.T) {
	ca := testpki.NewCA(t, operatorID)
	s := newFakeServer(t, ca)
	s.publish(signPolicy(t, ca, policyOf(1, 1, "c1", "c2")))
	r := newRig(t, ca, policyConfig(t, ca, s), options{})
	first := s.reported(r, func(report controlapi.Report) bool { return report.Policy.Number == 1 })
	assert.Equal(t, r.ext.instance, first.Instance)
	assert.NotEmpty(t, first.ReceiverSerial)
	assert.NotZero(t, first.Policy.AppliedAtMs)
	assert.Equal(t, controlapi.Seconds(time.UnixMilli(first.Policy.AppliedAtMs)), first.Policy.AppliedAt)
	assert.Equal(t, &controlapi.ReportDenied{Names: []string{}, Serials: []string{}}, first.Denied, "the first of an epoch")
	assert.Empty(t, first.Senders)

	leaf := sender(t, ca, "c1")
	held := r.wires(leaf)
	before := time.Now().UnixMilli()
	for _, w := range held {
		requireAccepted(t, w.send())
	}
	s.publish(signPolicy(t, ca, revoke(policyOf(1, 2, "c1", "c2"), 0, controlapi.SenderRevoked)))
	applied := s.reported(r, func(report controlapi.Report) bool { return report.Policy.Number == 2 })
	assert.Nil(t, applied.Denied)
	require.Len(t, applied.Senders, 1)
	line := applied.Senders[0]
	assert.Equal(t, "op-abc-export-c1", line.Name)
	assert.Equal(t, senders.SerialText(leaf.Cert.SerialNumber), line.Serial)
	assert.Equal(t, controlapi.SignalCounts{Traces: 3}, line.Accepted)
	assert.GreaterOrEqual(t, line.LastAcceptedAtMs, before)
	assert.LessOrEqual(t, line.LastAcceptedAtMs, applied.Policy.AppliedAtMs)
	assert.Zero(t, line.FirstRefusedAtMs)

	requireRefused(t, held[1].send(), "sender_revoked", codes.PermissionDenied)
	refused := s.reported(r, func(report controlapi.Report) bool {
		return len(report.Senders) > 0 && report.Senders[0].FirstRefusedAtMs != 0
	})
	assert.Equal(t, map[string]int64{"sender_revoked": 1}, refused.Senders[0].Refused)
	assert.GreaterOrEqual(t, refused.Senders[0].FirstRefusedAtMs, applied.Policy.AppliedAtMs)
	assert.Equal(t, map[string]int64{"accepted": 3, "sender_revoked": 1}, r.outcomes(), "receipts agree with our own counters")
}

// report: applied tells no senders; off tells nothing.
func TestReportModes(t *testing.T) {
	ca := testpki.NewCA(t, operatorID)
	for _, mode := range []string{reportApplied, reportOff} {
		s := newFakeServer(t, ca)
		s.publish(signPolicy(t, ca, policyOf(1, 1, "c1")))
		cfg := policyConfig(t, ca, s)
		cfg.Policy.Get().Report = mode
		r := newRig(t, ca, cfg, options{})
		r.inForce(1, 1)
		requireAccepted(t, r.wires(sender(t, ca, "c1"))[0].send())
		if mode == reportOff {
			r.ext.gate.report.raise()
			s.mu.Lock()
			assert.Empty(t, s.reports)
			s.mu.Unlock()
			continue
		}
		r.ext.gate.report.raise()
		report := s.reported(r, func(controlapi.Report) bool { return true })
		assert.Empty(t, report.Senders)
	}
}

// rekey: the old leaf works until the first request with the new one is accepted.
// It is out at once then, for this instance's life and after.
func TestRekey(t *testing.T) {
	ca := testpki.NewCA(t, operatorID)
	s := newFakeServer(t, ca)
	old, renewed := sender(t, ca, "c1"), sender(t, ca, "c1")
	p := policyOf(1, 1, "c1")
	serial := senders.SerialText(old.Cert.SerialNumber)
	p.Senders[0].Replaced = &controlapi.Replaced{Serials: []string{serial}, Until: controlapi.Seconds(time.Now().Add(time.Hour))}
	s.publish(signPolicy(t, ca, p))
	cfg := policyConfig(t, ca, s)
	r := newRig(t, ca, cfg, options{})
	r.inForce(1, 1)
	held := r.wires(old)
	for _, w := range held {
		requireAccepted(t, w.send())
	}
	requireAccepted(t, r.wires(renewed)[0].send())
	for _, w := range held {
		requireRefused(t, w.send(), "certificate_revoked", codes.PermissionDenied)
	}
	s.reported(r, func(report controlapi.Report) bool {
		return len(report.Senders) == 1 && report.Senders[0].Serial == senders.SerialText(renewed.Cert.SerialNumber)
	})
	require.Eventually(t, func() bool {
		data, err := os.ReadFile(cfg.Policy.Get().CacheFile)
		return err == nil && containsSerial(data, serial)
	}, waitLong, tick, "durable")

	s.fail(controlapi.NewProblem(controlapi.ReasonUnavailable, ""))
	restarted := newRig(t, ca, cfg, options{})
	requireRefused(t, restarted.wires(old)[0].send(), "certificate_revoked", codes.PermissionDenied)
	requireAccepted(t, restarted.wires(renewed)[0].send())

	s.fail(nil)
	p.Number = 2
	s.publish(signPolicy(t, ca, p))
	r.ext.gate.refresh.raise()
	r.inForce(1, 2)
	requireRefused(t, held[0].send(), "certificate_revoked", codes.PermissionDenied)
}

func containsSerial(cache []byte, serial string) bool {
	var memory struct{ Serials map[string]time.Time }
	lines := bytes.Split(cache, []byte("\n"))
	return len(lines) > 2 && json.Unmarshal(lines[2], &memory) == nil && !memory.Serials[serial].IsZero()
}

// A restored server starts a new epoch: what was denied stays denied, and the
// first report of the epoch says what that is.
func TestNewEpoch(t *testing.T) {
	ca := testpki.NewCA(t, operatorID)
	s := newFakeServer(t, ca)
	leaf := sender(t, ca, "c2")
	p := revoke(policyOf(1, 50, "c1", "c2", "c3"), 0, controlapi.SenderRevoked)
	p.RevokedSerials = []string{senders.SerialText(leaf.Cert.SerialNumber)}
	s.publish(signPolicy(t, ca, p))
	r := newRig(t, ca, policyConfig(t, ca, s), options{})
	r.inForce(1, 50)

	forgetful := policyOf(2, 3, "c1", "c2")
	for i := range forgetful.Senders {
		forgetful.Senders[i].Since = controlapi.Version{Epoch: 1}
	}
	s.publish(signPolicy(t, ca, forgetful))
	r.inForce(2, 3)
	requireRefused(t, r.wires(sender(t, ca, "c1"))[0].send(), "sender_revoked", codes.PermissionDenied)
	requireRefused(t, r.wires(leaf)[0].send(), "certificate_revoked", codes.PermissionDenied)
	requireAccepted(t, r.wires(sender(t, ca, "c2"))[0].send())
	requireAccepted(t, r.wires(sender(t, ca, "c3"))[0].send())
	report := s.reported(r, func(report controlapi.Report) bool { return report.Policy.Epoch == 2 && report.Denied != nil })
	assert.Equal(t, &controlapi.ReportDenied{Names: []string{"op-abc-export-c1"}, Serials: p.RevokedSerials}, report.Denied)

	restored := policyOf(2, 4, "c1", "c2")
	s.publish(signPolicy(t, ca, restored))
	r.inForce(2, 4)
	requireAccepted(t, r.wires(sender(t, ca, "c1"))[0].send())
}

// fakeClient takes reports in the place of a server.
type fakeClient struct {
	server
	reports []controlapi.Report
	err     error
}

func (*fakeClient) ClockOffset() time.Duration { return 1500 * time.Millisecond }

func (c *fakeClient) Report(_ context.Context, _ controlclient.Holder, r *controlapi.Report) error {
	if c.err == nil {
		c.reports = append(c.reports, *r)
	}
	return c.err
}

// Ten thousand senders do not fit into one report: it is sent in parts, and later
// ones repeat only what changed.
func TestReportOfManySenders(t *testing.T) {
	ca := testpki.NewCA(t, operatorID)
	cfg := policyConfig(t, ca, newFakeServer(t, ca))
	e, err := newCertNameAuth(nopSettings(), cfg, time.Now)
	require.NoError(t, err)
	p := policyOf(1, 1)
	_, err = e.keeper.offer(signPolicy(t, ca, p), p)
	require.NoError(t, err)
	const many = 4*reportLines + 7
	for i := range many {
		e.keeper.registry.Of(fmt.Sprintf("op-abc-export-c%05d", i)).CountRefused(senders.SenderRevoked, 1)
	}
	client := &fakeClient{}
	r := &reporter{server: client, policy: cfg.Policy.Get(), keeper: e.keeper, logger: e.set.Logger, now: time.Now, told: map[string]controlapi.ReportSender{}, epochTold: -1}
	require.NoError(t, r.send(context.Background()))
	require.Len(t, client.reports, 5)
	assert.NotNil(t, client.reports[0].Denied)
	assert.Nil(t, client.reports[1].Denied)
	assert.Equal(t, int64(1500), client.reports[0].ClockOffsetMs)
	total := 0
	for _, report := range client.reports {
		body, err := json.Marshal(report)
		require.NoError(t, err)
		assert.Less(t, len(body), controlapi.MaxReportBytes)
		total += len(report.Senders)
	}
	assert.Equal(t, many, total)

	client.reports, client.err = nil, context.DeadlineExceeded
	e.keeper.registry.Of("op-abc-export-c00003").CountRefused(senders.SenderRevoked, 1)
	require.Error(t, r.send(context.Background()))
	client.err = nil
	require.NoError(t, r.send(context.Background()))
	require.Len(t, client.reports, 1)
	require.Len(t, client.reports[0].Senders, 1)
	assert.Equal(t, map[string]int64{"sender_revoked": 2}, client.reports[0].Senders[0].Refused)

	p = policyOf(2, 1)
	_, err = e.keeper.offer(signPolicy(t, ca, p), p)
	require.NoError(t, err)
	client.reports = nil
	require.NoError(t, r.send(context.Background()))
	assert.Len(t, client.reports, 5, "a restored server is told of everyone again")
	require.NoError(t, e.Shutdown(context.Background()))
}
