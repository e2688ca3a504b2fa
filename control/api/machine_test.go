// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/signedpolicy"
)

// TestEnrolAndRenew: RN-5, IS-10, PK-14 and the idempotence of section 4.
func TestEnrolAndRenew(t *testing.T) {
	h := newHarness(t)
	h.operator("op-eu", "c1")
	token, key := h.mint("op-eu", "c1"), newKey(t)
	first := h.enroll(token, key)
	require.Equal(t, http.StatusOK, first.StatusCode, "%s", first.body)
	held := h.holding(first, key)
	assert.Equal(t, "op-eu-export-c1", held.Name)
	assert.Equal(t, controlapi.RoleSender, held.Role)
	assert.Equal(t, first.body, h.enroll(token, key).body, "the same key answers the same, byte for byte")
	refused(t, h.enroll(token, newKey(t)), controlapi.ReasonTokenSpent)

	next := newKey(t)
	second := h.renew(held, next)
	require.Equal(t, http.StatusOK, second.StatusCode, "%s", second.body)
	renewed := h.holding(second, next)
	assert.NotEqual(t, held.Serial, renewed.Serial)
	assert.Equal(t, held.CA, renewed.CA)
	assert.Equal(t, second.body, h.renew(held, next).body, "a lost answer is given again")
	refused(t, h.renew(renewed, next), controlapi.ReasonKeyInUse)
	again := h.renew(held, newKey(t))
	assert.Equal(t, http.StatusOK, again.StatusCode, "a superseded leaf stays good")

	list := admin1[operators.List[map[string]any]](h, http.MethodGet, "/operators/op-eu/certificates", nil)
	assert.Len(t, list.Items, 3)
	assert.NotContains(t, string(first.body), "PRIVATE KEY")
}

func TestEnrolRefusals(t *testing.T) {
	h := newHarness(t)
	h.operator("op-eu", "c1")
	good := csrOf(t, newKey(t))
	refusedBy := func(token, csr string) *answered {
		return h.send(h.request(http.MethodPost, controlapi.RouteEnroll, "", controlapi.EnrollRequest{Token: token, CSR: csr}))
	}
	replaced := h.mint("op-eu", "c1")
	token := h.mint("op-eu", "c1")
	refused(t, refusedBy("", good), controlapi.ReasonTokenUnknown)
	refused(t, refusedBy("iktok_nonsense", good), controlapi.ReasonTokenUnknown)
	refused(t, refusedBy(controlapi.NewSecret(controlapi.SecretEnrollment, make([]byte, 32)), good), controlapi.ReasonTokenUnknown)
	refused(t, refusedBy(replaced, good), controlapi.ReasonTokenRevoked)
	refused(t, refusedBy(token, "not a request"), controlapi.ReasonCSRInvalid)
	h.clock.add(2 * time.Hour)
	refused(t, refusedBy(token, good), controlapi.ReasonTokenExpired)
}

func TestRenewRefusals(t *testing.T) {
	h := newHarness(t)
	h.operator("op-eu", "c1", "c2", "c3", "c4")
	revoke := func(sender, reason string) *answered {
		return h.send(h.request(http.MethodPost, "/api/v1/orgs/default/operators/op-eu/senders/"+sender+"/revoke", h.token, map[string]string{"reason": reason}))
	}
	held := h.holder("op-eu", "c1")
	require.Equal(t, http.StatusOK, revoke("c1", "hold").StatusCode)
	refused(t, h.renew(held, newKey(t)), controlapi.ReasonSenderHeld)
	admin1[operators.SenderToken](h, http.MethodPost, "/operators/op-eu/senders/c1/restore", nil)
	require.Equal(t, http.StatusOK, h.renew(held, newKey(t)).StatusCode, "a lifted hold leaves the leaf working")

	require.Equal(t, http.StatusOK, revoke("c1", "compromised").StatusCode)
	refused(t, h.renew(held, newKey(t)), controlapi.ReasonLeafRevoked)

	second := h.holder("op-eu", "c2")
	admin1[controlapi.Receipt](h, http.MethodPost, "/operators/op-eu/certificates/"+second.Serial+"/revoke", nil)
	refused(t, h.renew(second, newKey(t)), controlapi.ReasonLeafRevoked)

	third := h.holder("op-eu", "c3")
	h.clock.add(31 * 24 * time.Hour)
	refused(t, h.renew(third, newKey(t)), controlapi.ReasonLeafEnded)

	fourth := h.holder("op-eu", "c4")
	admin1[operators.Removal](h, http.MethodPost, "/operators/op-eu/revoke?force=true", nil)
	refused(t, h.renew(fourth, newKey(t)), controlapi.ReasonOperatorRevoked)
	refused(t, h.policy(fourth, "", ""), controlapi.ReasonOperatorRevoked)
}

func issuerOf(t *testing.T, held *holder) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode([]byte(held.CA))
	require.NotNil(t, block)
	ca, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	return ca
}

// TestPolicyPoll: ETag, 304 at the end of the wait, waking at a change.
func TestPolicyPoll(t *testing.T) {
	h := newHarness(t)
	h.operator("op-eu", "c1")
	receiver := h.holder("op-eu", "")
	got := h.policy(receiver, "", "")
	require.Equal(t, http.StatusOK, got.StatusCode, "%s", got.body)
	etag := got.Header.Get("ETag")
	require.Regexp(t, `^"[^"]+"$`, etag, "a strong validator")
	p, err := signedpolicy.Verify(string(got.body), issuerOf(t, receiver))
	require.NoError(t, err)
	assert.Equal(t, controlapi.PolicyEnforce, p.Mode)
	require.Len(t, p.Senders, 1)
	assert.Equal(t, "op-eu-export-c1", p.Senders[0].Name)
	assert.Equal(t, "/api/v1/operators/op-eu/crl", p.CRL)

	for name, query := range map[string]string{"at once": "", "zero": "?wait=0", "at its end": "?wait=1"} {
		same := h.policy(receiver, etag, query)
		assert.Equal(t, http.StatusNotModified, same.StatusCode, name)
		assert.Equal(t, etag, same.Header.Get("ETag"))
		assert.Empty(t, same.body)
	}
	for _, query := range []string{"?wait=", "?wait=61", "?wait=-1", "?wait=1s", "?wait=1.5", "?wait=1&wait=2", "?other=1", "?wait=%zz"} {
		refused(t, h.policy(receiver, etag, query), controlapi.ReasonRequestMalformed)
	}

	woken := h.poll(receiver, etag)
	admin1[controlapi.Receipt](h, http.MethodPost, "/operators/op-eu/senders/c1/revoke", map[string]string{"reason": "compromised"})
	changed := <-woken
	require.Equal(t, http.StatusOK, changed.StatusCode, "%s", changed.body)
	p, err = signedpolicy.Verify(string(changed.body), issuerOf(t, receiver))
	require.NoError(t, err)
	assert.Equal(t, controlapi.SenderRevoked, p.Senders[0].State)
}

// poll starts a long poll and returns once its request is on its way.
func (h *harness) poll(held *holder, etag string) <-chan *answered {
	req := h.proven(held, http.MethodGet, controlapi.RoutePolicy, "?wait=60", nil)
	req.Header.Set("If-None-Match", etag)
	sent := make(chan struct{})
	trace := &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { close(sent) }}
	woken := make(chan *answered, 1)
	go func() { woken <- h.send(req.WithContext(httptrace.WithClientTrace(req.Context(), trace))) }()
	<-sent
	return woken
}

func TestPolicyRefusals(t *testing.T) {
	h := newHarness(t)
	h.operator("op-eu", "c1")
	sender, receiver := h.holder("op-eu", "c1"), h.holder("op-eu", "")
	refused(t, h.policy(sender, "", ""), controlapi.ReasonRoleWrong)
	refused(t, h.report(sender, reportOf("i1", controlapi.Version{Epoch: 1})), controlapi.ReasonRoleWrong)
	refused(t, h.policy(receiver, `"1.999999"`, ""), controlapi.ReasonLedgerRollback)
	refused(t, h.policy(receiver, `W/"2.1"`, "?wait=5"), controlapi.ReasonLedgerRollback)
	refused(t, h.report(receiver, reportOf("i1", controlapi.Version{Epoch: 1, Number: 1 << 40})), controlapi.ReasonLedgerRollback)
	refused(t, h.report(receiver, reportOf("", controlapi.Version{Epoch: 1})), controlapi.ReasonValidationFailed)

	etag := h.policy(receiver, "", "").Header.Get("ETag")
	woken := h.poll(receiver, etag)
	admin1[controlapi.Receipt](h, http.MethodPost, "/operators/op-eu/certificates/"+receiver.Serial+"/revoke", nil)
	refused(t, <-woken, controlapi.ReasonLeafRevoked)
}

// TestStoppingServerAnswersPolls: a stopping server answers 304.
func TestStoppingServerAnswersPolls(t *testing.T) {
	h := newHarness(t)
	h.operator("op-eu")
	receiver := h.holder("op-eu", "")
	etag := h.policy(receiver, "", "").Header.Get("ETag")
	woken := h.poll(receiver, etag)
	h.hub.Stop()
	assert.Equal(t, http.StatusNotModified, (<-woken).StatusCode)
}

// TestRevokedOperatorKeepsAnswering: RV-5, PK-9: the last policy denies all.
func TestRevokedOperatorKeepsAnswering(t *testing.T) {
	h := newHarness(t)
	h.operator("op-eu", "c1")
	receiver := h.holder("op-eu", "")
	ca := issuerOf(t, receiver)
	removal := admin1[operators.Removal](h, http.MethodDelete, "/operators/op-eu?force=true", nil)
	assert.Contains(t, removal.Uninstall, "helm uninstall")
	refused(t, h.send(h.request(http.MethodGet, "/api/v1/orgs/default/operators/op-eu", h.token, nil)), controlapi.ReasonNotFound)

	got := h.policy(receiver, "", "")
	require.Equal(t, http.StatusOK, got.StatusCode, "%s", got.body)
	p, err := signedpolicy.Verify(string(got.body), ca)
	require.NoError(t, err)
	assert.Equal(t, controlapi.PolicyDenyAll, p.Mode)
	assert.Empty(t, p.Senders)
	assert.Equal(t, http.StatusNotModified, h.policy(receiver, got.Header.Get("ETag"), "").StatusCode)
	assert.Equal(t, http.StatusNoContent, h.report(receiver, reportOf("i1", p.Version)).StatusCode)

	list := crlOf(t, h, "op-eu", ca)
	assert.True(t, list.NextUpdate.Equal(ca.NotAfter), "good to the end of the CA")
}

func crlOf(t *testing.T, h *harness, operatorID string, ca *x509.Certificate) *x509.RevocationList {
	t.Helper()
	a := h.send(h.request(http.MethodGet, controlapi.RouteCRL(operatorID), "", nil))
	require.Equal(t, http.StatusOK, a.StatusCode, "%s", a.body)
	require.Equal(t, controlapi.CRLContentType, a.Header.Get("Content-Type"))
	list, err := x509.ParseRevocationList(a.body)
	require.NoError(t, err)
	require.NoError(t, list.CheckSignatureFrom(ca))
	return list
}

func TestCRL(t *testing.T) {
	h := newHarness(t)
	h.operator("op-eu", "c1")
	held := h.holder("op-eu", "c1")
	ca := issuerOf(t, held)
	before := crlOf(t, h, "op-eu", ca)
	assert.Empty(t, before.RevokedCertificateEntries)

	receipt := admin1[controlapi.Receipt](h, http.MethodPost, "/operators/op-eu/senders/c1/revoke", map[string]string{"reason": "retired"})
	after := crlOf(t, h, "op-eu", ca)
	require.Len(t, after.RevokedCertificateEntries, 1)
	assert.Zero(t, after.RevokedCertificateEntries[0].SerialNumber.Cmp(held.leaf.SerialNumber))
	want := new(big.Int).Lsh(big.NewInt(1), 64)
	assert.Zero(t, after.Number.Cmp(want.Add(want, big.NewInt(receipt.Number))), "epoch · 2^64 + number")
	assert.Equal(t, 24*time.Hour, after.NextUpdate.Sub(after.ThisUpdate))

	req := h.request(http.MethodGet, controlapi.RouteCRL("op-eu"), "", nil)
	req.Header.Set("If-None-Match", h.send(req.Clone(t.Context())).Header.Get("ETag"))
	assert.Equal(t, http.StatusNotModified, h.send(req).StatusCode)
	h.clock.add(6 * time.Hour)
	assert.True(t, crlOf(t, h, "op-eu", ca).ThisUpdate.After(after.ThisUpdate), "signed again every six hours")
	refused(t, h.send(h.request(http.MethodGet, controlapi.RouteCRL("op-none"), "", nil)), controlapi.ReasonNotFound)
}

func reportOf(instance string, v controlapi.Version) *controlapi.Report {
	return &controlapi.Report{
		Instance: instance, Version: "1", StartedAt: time.Unix(1, 0).UTC(),
		Policy:  controlapi.ReportPolicy{Version: v, AppliedAt: time.Unix(2, 0).UTC()},
		Senders: []controlapi.ReportSender{},
	}
}

// TestReceipt: reports feed receipts, ?wait= ends when nothing is pending.
func TestReceipt(t *testing.T) {
	h := newHarness(t)
	h.operator("op-eu", "c1")
	receiver := h.holder("op-eu", "")
	current, err := signedpolicy.Verify(string(h.policy(receiver, "", "").body), issuerOf(t, receiver))
	require.NoError(t, err)
	for _, instance := range []string{"i1", "i2"} {
		r := reportOf(instance, current.Version)
		r.ReceiverSerial = receiver.Serial
		require.Equal(t, http.StatusNoContent, h.report(receiver, r).StatusCode)
	}
	receipt := admin1[controlapi.Receipt](h, http.MethodPost, "/operators/op-eu/senders/c1/revoke", map[string]string{"reason": "compromised"})
	require.Len(t, receipt.Instances, 2)
	assert.Equal(t, controlapi.ReceiptPending, receipt.Instances[0].State)
	again := admin1[controlapi.Receipt](h, http.MethodPost, "/operators/op-eu/senders/c1/revoke", map[string]string{"reason": "compromised"})
	assert.Equal(t, receipt.ReceiptID, again.ReceiptID, "a repeated revoke answers the first receipt")

	waited := make(chan controlapi.Receipt, 1)
	go func() {
		for {
			got := admin1[controlapi.Receipt](h, http.MethodGet, "/receipts/"+receipt.ReceiptID+"?wait=10", nil)
			if !slices.ContainsFunc(got.Instances, func(i controlapi.ReceiptInstance) bool { return i.State == controlapi.ReceiptPending }) {
				waited <- got
				return
			}
		}
	}()
	confirmed := controlapi.Version{Epoch: 1, Number: receipt.Number}
	for _, instance := range []string{"i1", "i2"} {
		r := reportOf(instance, confirmed)
		r.Policy.AppliedAtMs = receipt.CommittedAtMs + 180
		r.Senders = []controlapi.ReportSender{{Name: "op-eu-export-c1", LastAcceptedAtMs: receipt.CommittedAtMs - 400, FirstRefusedAtMs: receipt.CommittedAtMs + 210}}
		require.Equal(t, http.StatusNoContent, h.report(receiver, r).StatusCode)
	}
	done := <-waited
	for _, i := range done.Instances {
		assert.Equal(t, controlapi.ReceiptConfirmed, i.State)
		assert.Equal(t, receipt.CommittedAtMs+180, i.AppliedAtMs)
		assert.Equal(t, receipt.CommittedAtMs-400, i.LastAcceptedAtMs)
		assert.Equal(t, receipt.CommittedAtMs+210, i.FirstRefusedAtMs)
	}
	for _, query := range []string{"?wait=", "?wait=11", "?wait=x"} {
		refused(t, h.send(h.request(http.MethodGet, "/api/v1/orgs/default/receipts/"+receipt.ReceiptID+query, h.token, nil)), controlapi.ReasonRequestMalformed)
	}
}

// TestReceiptUnreachable: an instance that neither reports nor polls for 90 s.
func TestReceiptUnreachable(t *testing.T) {
	h := newHarness(t)
	h.operator("op-eu", "c1")
	receiver := h.holder("op-eu", "")
	r := reportOf("i1", controlapi.Version{Epoch: 1, Number: 1})
	r.ReceiverSerial = receiver.Serial
	require.Equal(t, http.StatusNoContent, h.report(receiver, r).StatusCode)
	receipt := admin1[controlapi.Receipt](h, http.MethodPost, "/operators/op-eu/senders/c1/revoke", map[string]string{"reason": "hold"})
	state := func() controlapi.ReceiptState {
		return admin1[controlapi.Receipt](h, http.MethodGet, "/receipts/"+receipt.ReceiptID, nil).Instances[0].State
	}
	assert.Equal(t, controlapi.ReceiptPending, state())
	h.clock.add(80 * time.Second)
	h.policy(receiver, "", "")
	h.clock.add(80 * time.Second)
	assert.Equal(t, controlapi.ReceiptPending, state(), "it polled")
	h.clock.add(80 * time.Second)
	assert.Equal(t, controlapi.ReceiptUnreachable, state())
}

// TestHeartbeat: HB-1, HB-8, HB-13, HB-20 to HB-24, HS-1 to HS-5, RV-10, A-7: whatever
// the body.
func TestHeartbeat(t *testing.T) {
	h := newHarness(t)
	h.operator("op-eu")
	health := func() *operators.Health {
		return admin1[operators.Operator](h, http.MethodGet, "/operators/op-eu", nil).Health
	}
	beat := func(secret string, body any) *answered {
		return h.send(h.request(http.MethodPost, controlapi.RouteHeartbeat, secret, body))
	}
	assert.Equal(t, &operators.Health{State: liveUnknown}, health())
	old := admin1[operators.HeartbeatSecret](h, http.MethodPost, "/operators/op-eu/heartbeat", nil).Secret
	secret := admin1[operators.HeartbeatSecret](h, http.MethodPost, "/operators/op-eu/heartbeat", nil).Secret

	var first []byte
	for name, bad := range map[string]string{
		"none": "", "malformed": "x", "unknown": controlapi.NewSecret(controlapi.SecretHeartbeat, nil), "rotated away": old, "of another kind": h.token,
	} {
		a := beat(bad, nil)
		p := refused(t, a, controlapi.ReasonHeartbeatUnauthorized)
		same := []byte(strings.ReplaceAll(string(a.body), p.RequestID, ""))
		if first == nil {
			first = same
		}
		assert.Equal(t, string(first), string(same), name)
	}
	ours := controlapi.Heartbeat{Version: "1", Instance: "i1", StartedAt: time.Unix(1, 0).UTC(), Status: controlapi.HealthOK, Certificates: []controlapi.HeartbeatCertificate{}}
	for name, body := range map[string]any{"ours": ours, "empty": nil, "other": "anything at all", "past 1 MiB": strings.Repeat("x", 1<<20+1)} {
		a := beat(secret, body)
		assert.Equal(t, http.StatusOK, a.StatusCode, name)
		assert.Empty(t, a.body, name)
		assert.True(t, health().Reporting)
		assert.Equal(t, "online", health().State)
		h.clock.add(16 * time.Second)
	}
	reported := func() *controlapi.Heartbeat {
		return admin1[operators.Operator](h, http.MethodGet, "/operators/op-eu", nil).Reported
	}
	odd := ours
	odd.Instance, odd.Status = "i2", "splendid"
	for name, body := range map[string]any{"ours": ours, "empty": nil, "other": "anything at all", "an empty object": "{}", "another word": odd} {
		require.Equal(t, http.StatusOK, beat(secret, ours).StatusCode)
		h.clock.add(16 * time.Second)
		require.Equal(t, http.StatusOK, beat(secret, body).StatusCode, name)
		h.clock.add(16 * time.Second)
		assert.Equal(t, &ours, reported(), "the last body of ours is kept: %s", name)
	}
	seen := health().LastSeenAt
	beat(secret, nil)
	later := health().LastSeenAt
	assert.True(t, later.After(*seen))
	h.clock.add(5 * time.Second)
	beat(secret, nil)
	assert.Equal(t, later, health().LastSeenAt, "at most one write in 15 s")
	h.clock.add(181 * time.Second)
	assert.Equal(t, "offline", health().State)
	admin1[operators.Removal](h, http.MethodPost, "/operators/op-eu/revoke", nil)
	refused(t, beat(secret, nil), controlapi.ReasonHeartbeatUnauthorized)
	assert.Equal(t, "offline", health().State)
}

const liveUnknown = "unknown"

func TestProbes(t *testing.T) {
	h := newHarness(t)
	for _, path := range []string{"/healthz", "/readyz"} {
		a := h.send(h.request(http.MethodGet, path, "", nil))
		assert.Equal(t, http.StatusOK, a.StatusCode)
		assert.True(t, json.Valid(a.body))
	}
}

// TestReadyWritesSeldom: whoever asks, /readyz writes once in ten seconds, also
// after the clock was set back.
func TestReadyWritesSeldom(t *testing.T) {
	h := newHarness(t)
	written := ""
	for _, step := range []struct {
		by     time.Duration
		writes bool
	}{{0, true}, {9 * time.Second, false}, {time.Second, true}, {-time.Hour, true}, {time.Second, false}} {
		h.clock.add(step.by)
		require.Equal(t, http.StatusOK, h.send(h.request(http.MethodGet, "/readyz", "", nil)).StatusCode)
		require.NoError(t, h.store.View(t.Context(), func(tx *ledger.Tx) error {
			value, ok, err := tx.Setting(settingReady)
			assert.True(t, ok)
			assert.Equal(t, step.writes, string(value) != written, "%v", step.by)
			written = string(value)
			return err
		}))
	}
}
