// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certnameauth

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/ikhnos/continuum/components/extension/certnameauth/internal/senders"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/runtimestate"
	"github.com/ikhnos/continuum/internal/testpki"
)

// waitLong bounds waits for what comes at once on an idle machine.
const waitLong, tick = 2 * time.Minute, 10 * time.Millisecond

func revoke(p *controlapi.Policy, i int, state controlapi.SenderState) *controlapi.Policy {
	p.Senders[i].State = state
	return p
}

// RV-5, RV-6, PK-21, TM-9, trap-5: a cut-off acts on connections that are held.
func TestRevocationOnHeldConnections(t *testing.T) {
	ca := testpki.NewCA(t, operatorID)
	s := newFakeServer(t, ca)
	s.publish(signPolicy(t, ca, policyOf(1, 1, "c1", "c2")))
	r := newRig(t, ca, policyConfig(t, ca, s), options{})
	r.inForce(1, 1)
	leaf := sender(t, ca, "c1")
	held := r.wires(leaf)
	number := int64(1)
	next := func(edit func(*controlapi.Policy)) {
		number++
		p := policyOf(1, number, "c1", "c2")
		edit(p)
		s.publish(signPolicy(t, ca, p))
		r.inForce(1, number)
	}
	for _, tt := range []struct {
		name   string
		edit   func(*controlapi.Policy)
		reason string
	}{
		{"sender revoked", func(p *controlapi.Policy) { revoke(p, 0, controlapi.SenderRevoked) }, "sender_revoked"},
		{"sender held", func(p *controlapi.Policy) { revoke(p, 0, controlapi.SenderHeld) }, "sender_held"},
		{"state of a later release", func(p *controlapi.Policy) { revoke(p, 0, "limited") }, "sender_revoked"},
		{"leaf revoked", func(p *controlapi.Policy) {
			p.RevokedSerials = []string{senders.SerialText(leaf.Cert.SerialNumber)}
		}, "certificate_revoked"},
		{"operator revoked", func(p *controlapi.Policy) { p.Mode = controlapi.PolicyDenyAll }, "operator_revoked"},
		{"sender deleted", func(p *controlapi.Policy) {
			p.Senders = p.Senders[1:]
			p.IssuedAt = controlapi.Seconds(time.Now().Add(time.Minute))
		}, "sender_unknown"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			next(func(*controlapi.Policy) {})
			for _, w := range held {
				requireAccepted(t, w.send())
			}
			next(tt.edit)
			for _, w := range held {
				requireRefused(t, w.send(), tt.reason, codes.PermissionDenied)
			}
		})
	}
}

// TM-9, A-31, trap-5, trap-13: a leaf that ends on a held connection is refused
// retryably, and on HTTP the connection ends so that a renewed leaf can come.
func TestExpiryOnHeldConnections(t *testing.T) {
	ca := testpki.NewCA(t, operatorID)
	r := newRig(t, ca, staticConfig("c1"), options{})
	leaf := sender(t, ca, "c1")
	held := r.wires(leaf)
	for _, w := range held {
		requireAccepted(t, w.send())
	}
	r.clock.move(time.Until(leaf.Cert.NotAfter) - time.Hour)
	for _, w := range held {
		a := w.send()
		requireAccepted(t, a)
		assert.Equal(t, w.name == "http1", a.closed, "less than a fifth of its life is left")
	}
	r.clock.move(2 * time.Hour)
	for _, w := range held {
		requireRefused(t, w.send(), "certificate_ended", codes.Unavailable)
	}
}

// case-22: what a sender writes about itself is not looked at. A listed sender that
// names another stays itself, and one that is not listed gets in by no header.
func TestForgedHeaderChangesNothing(t *testing.T) {
	ca := testpki.NewCA(t, operatorID)
	r := newRig(t, ca, staticConfig("c1", "c2"), options{})
	forged := map[string]string{
		"x-sender": "op-abc-export-c2", "sender.name": "op-abc-export-c2", "sender.cluster_id": "c2",
		"x-scope-orgid": "other", "authorization": "Bearer op-abc-export-c2",
		"x-forwarded-client-cert": `Subject="CN=op-abc-export-c2";DNS=op-abc-export-c2`,
	}
	send := func(leaf *testpki.Leaf) map[string]answer {
		_, err := r.grpcClient(leaf).Export(metadata.NewOutgoingContext(t.Context(), metadata.New(forged)), request())
		answers := map[string]answer{"grpc": grpcAnswer(err)}
		for _, h2 := range []bool{false, true} {
			req, err := http.NewRequest(http.MethodPost, "https://"+r.httpAddr+"/v1/traces", bytes.NewReader(encoded(t, contentProtobuf)))
			require.NoError(t, err)
			req.Header.Set("Content-Type", contentProtobuf)
			for name, value := range forged {
				req.Header.Set(name, value)
			}
			answers[fmt.Sprint("http, 2: ", h2)] = r.do(r.httpClient(leaf, h2), req, contentProtobuf)
		}
		return answers
	}
	for _, a := range send(sender(t, ca, "c1")) {
		requireAccepted(t, a)
	}
	require.Len(t, r.sink.infos, 3)
	for _, info := range r.sink.infos {
		require.Equal(t, "op-abc-export-c1", info.Auth.GetAttribute("sender.name"))
		require.Equal(t, "c1", info.Auth.GetAttribute("sender.cluster_id"))
		require.Equal(t, "default", info.Auth.GetAttribute("sender.org_id"))
	}
	for _, a := range send(sender(t, ca, "c9")) {
		requireRefused(t, a, "sender_unknown", codes.PermissionDenied)
	}
}

// without any policy nothing is accepted and nothing is lost, and the
// proof's files may come later.
func TestNoPolicyYet(t *testing.T) {
	ca := testpki.NewCA(t, operatorID)
	s := newFakeServer(t, ca)
	cfg := policyConfig(t, ca, s)
	proof := cfg.Policy.Get().Proof
	held := proof.CertFile + ".later"
	require.NoError(t, os.Rename(proof.CertFile, held))
	r := newRig(t, ca, cfg, options{})
	for _, w := range r.wires(sender(t, ca, "c1")) {
		requireRefused(t, w.send(), "policy_not_loaded", codes.Unavailable)
	}
	require.Eventually(t, func() bool {
		return strings.HasPrefix(r.host.status(), "StatusRecoverableError policy_not_loaded")
	}, waitLong, tick)
	assert.NotEmpty(t, r.logs.FilterMessage("Sender policy cannot be fetched, and there is none yet: every request is refused, retryably").All())
	assert.Empty(t, r.logs.FilterMessage("Sender policy cannot be fetched, the last one stays in force").All())
	s.publish(signPolicy(t, ca, policyOf(1, 1, "c1")))
	require.NoError(t, os.Rename(held, proof.CertFile))
	r.inForce(1, 1)
	for _, w := range r.wires(sender(t, ca, "c1")) {
		requireAccepted(t, w.send())
	}
	require.Eventually(t, func() bool { return r.host.status() == "StatusOK" }, waitLong, tick)
	_, version := runtimestate.Snapshot(r.ext.instance)
	assert.Equal(t, &controlapi.Version{Epoch: 1, Number: 1}, version)
}

// A server that answers 401, 403, 404 or 410 to everything changes nothing: only
// a signed policy denies.
func TestFailedRefreshesChangeNothing(t *testing.T) {
	t.Parallel() // it waits for refreshes, of which there is one in two seconds
	ca := testpki.NewCA(t, operatorID)
	s := newFakeServer(t, ca)
	s.publish(signPolicy(t, ca, policyOf(1, 1, "c1")))
	r := newRig(t, ca, policyConfig(t, ca, s), options{})
	r.inForce(1, 1)
	held := r.wires(sender(t, ca, "c1"))
	for _, problem := range []*controlapi.Problem{
		{Status: http.StatusNotFound}, // of a server that is none of ours
		controlapi.NewProblem(controlapi.ReasonNotFound, ""), controlapi.NewProblem(controlapi.ReasonLeafRevoked, ""),
		controlapi.NewProblem(controlapi.ReasonProofInvalid, ""), controlapi.NewProblem(controlapi.ReasonOperatorRevoked, ""),
	} {
		before := s.pollCount()
		s.fail(problem)
		r.ext.gate.refresh.raise()
		require.Eventually(t, func() bool { return s.pollCount() > before }, waitLong, tick, problem)
		for _, w := range held {
			requireAccepted(t, w.send())
		}
	}
	assert.NotEmpty(t, r.logs.FilterMessage("Sender policy cannot be fetched, the last one stays in force").All())
	s.fail(nil)
	s.publish(signPolicy(t, ca, policyOf(1, 2, "c1")))
	r.ext.gate.refresh.raise()
	r.inForce(1, 2)
}

// trap-10: an older policy, one of another CA or operator, and an edited one are
// not taken.
func TestPoliciesThatAreNotTaken(t *testing.T) {
	t.Parallel()
	ca, foreign := testpki.NewCA(t, operatorID), testpki.NewCA(t, operatorID)
	s := newFakeServer(t, ca)
	s.publish(signPolicy(t, ca, revoke(policyOf(2, 5, "c1", "c2"), 0, controlapi.SenderRevoked)))
	r := newRig(t, ca, policyConfig(t, ca, s), options{})
	r.inForce(2, 5)
	other := policyOf(2, 9, "c1")
	other.OperatorID = "op-other"
	good := signPolicy(t, ca, policyOf(2, 9, "c1"))
	for _, tt := range []struct{ name, jws, status string }{
		{"lower number", signPolicy(t, ca, policyOf(2, 4, "c1")), "policy_regressed"},
		{"lower epoch", signPolicy(t, ca, policyOf(1, 99, "c1")), "policy_regressed"},
		{"another CA", signPolicy(t, foreign, policyOf(2, 9, "c1")), "policy_signature"},
		{"another operator", signPolicy(t, ca, other), "policy_signature"},
		{"edited", good[:len(good)-4] + "AAAA", "policy_signature"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s.publish(tt.jws)
			r.ext.gate.refresh.raise()
			require.Eventually(t, func() bool {
				return strings.HasPrefix(r.host.status(), "StatusRecoverableError "+tt.status)
			}, waitLong, tick)
			for _, w := range r.wires(sender(t, ca, "c1")) {
				requireRefused(t, w.send(), "sender_revoked", codes.PermissionDenied)
			}
			for _, w := range r.wires(sender(t, ca, "c2")) {
				requireAccepted(t, w.send())
			}
		})
	}
	s.publish(signPolicy(t, ca, policyOf(2, 6, "c1")))
	r.ext.gate.refresh.raise()
	r.inForce(2, 6)
	require.Eventually(t, func() bool { return r.host.status() == "StatusOK" }, waitLong, tick)
}

// A name that the policy lacks on a leaf that is younger: kept, and the policy is
// asked for at once, at most every two seconds.
func TestSenderNotYetKnown(t *testing.T) {
	t.Parallel()
	ca := testpki.NewCA(t, operatorID)
	s := newFakeServer(t, ca)
	first := policyOf(1, 1, "c1")
	first.IssuedAt = controlapi.Seconds(time.Now().Add(-time.Hour))
	s.publish(signPolicy(t, ca, first))
	r := newRig(t, ca, policyConfig(t, ca, s), options{})
	r.inForce(1, 1)
	before := s.pollCount()
	began := time.Now()
	held := r.wires(sender(t, ca, "c2"))
	for range 3 {
		for _, w := range held {
			requireRefused(t, w.send(), "sender_not_yet_known", codes.Unavailable)
		}
	}
	require.Eventually(t, func() bool { return s.pollCount() >= before+2 }, waitLong, tick)
	assert.LessOrEqual(t, s.pollCount()-before, 2+2*int(time.Since(began)/refreshEvery+1))
	s.publish(signPolicy(t, ca, policyOf(1, 2, "c1", "c2")))
	r.inForce(1, 2)
	for _, w := range held {
		requireAccepted(t, w.send())
	}
}

// The cache is enough: kill after the first refusal, start without the server.
func TestRestartWithoutServer(t *testing.T) {
	ca := testpki.NewCA(t, operatorID)
	s := newFakeServer(t, ca)
	cfg := policyConfig(t, ca, s)
	s.publish(signPolicy(t, ca, revoke(policyOf(1, 1, "c1", "c2"), 0, controlapi.SenderRevoked)))
	first := newRig(t, ca, cfg, options{})
	first.inForce(1, 1)
	s.fail(controlapi.NewProblem(controlapi.ReasonUnavailable, ""))

	check := func(t *testing.T, r *rig) {
		for _, w := range r.wires(sender(t, ca, "c1")) {
			requireRefused(t, w.send(), "sender_revoked", codes.PermissionDenied)
		}
		for _, w := range r.wires(sender(t, ca, "c2")) {
			requireAccepted(t, w.send())
		}
	}
	check(t, newRig(t, ca, cfg, options{}))

	path := cfg.Policy.Get().CacheFile
	good, err := os.ReadFile(path)
	require.NoError(t, err)
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	lines := bytes.Split(good, []byte("\n"))
	require.Len(t, lines, 4)
	_, err = time.Parse(time.RFC3339, string(lines[1]))
	require.NoError(t, err)
	require.True(t, json.Valid(lines[2]))

	t.Run("edited cache", func(t *testing.T) {
		edited := bytes.Clone(good)
		edited[len(lines[0])/2] ^= 1
		require.NoError(t, os.WriteFile(path, edited, 0o600))
		r := newRig(t, ca, cfg, options{})
		for _, w := range r.wires(sender(t, ca, "c2")) {
			requireRefused(t, w.send(), "policy_not_loaded", codes.Unavailable)
		}
		require.Eventually(t, func() bool { return strings.HasPrefix(r.host.status(), "StatusRecoverableError") }, waitLong, tick)
		assert.NotEmpty(t, r.logs.FilterMessage("Cache file of the sender policy cannot be used").All())
	})
}

// max_staleness refuses retryably, and the age survives a restart.
func TestStalePolicy(t *testing.T) {
	t.Parallel()
	ca := testpki.NewCA(t, operatorID)
	s := newFakeServer(t, ca)
	cfg := policyConfig(t, ca, s)
	cfg.Policy.Get().MaxStaleness = time.Hour
	s.publish(signPolicy(t, ca, policyOf(1, 1, "c1")))
	r := newRig(t, ca, cfg, options{})
	r.inForce(1, 1)
	held := r.wires(sender(t, ca, "c1"))
	requireAccepted(t, held[0].send())
	s.fail(controlapi.NewProblem(controlapi.ReasonUnavailable, ""))
	r.clock.move(2 * time.Hour)
	for _, w := range held {
		requireRefused(t, w.send(), "policy_stale", codes.Unavailable)
	}
	require.Eventually(t, func() bool { return strings.HasPrefix(r.host.status(), "StatusRecoverableError policy_stale") }, waitLong, tick)

	path := cfg.Policy.Get().CacheFile
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := bytes.Split(data, []byte("\n"))
	lines[1] = []byte(controlapi.Seconds(time.Now().Add(-3 * time.Hour)).Format(time.RFC3339))
	require.NoError(t, os.WriteFile(path, bytes.Join(lines, []byte("\n")), 0o600))
	restarted := newRig(t, ca, cfg, options{})
	for _, w := range restarted.wires(sender(t, ca, "c1")) {
		requireRefused(t, w.send(), "policy_stale", codes.Unavailable)
	}
	s.fail(nil)
	restarted.ext.gate.refresh.raise()
	require.Eventually(t, func() bool { return restarted.wires(sender(t, ca, "c1"))[0].send().code == codes.OK }, waitLong, 50*time.Millisecond)
}
