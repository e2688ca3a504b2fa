// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certnameauth

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/config/configoptional"

	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/controlclient"
	"github.com/ikhnos/continuum/internal/holderproof"
	"github.com/ikhnos/continuum/internal/identity"
	"github.com/ikhnos/continuum/internal/signedpolicy"
	"github.com/ikhnos/continuum/internal/testpki"
)

// fakeServer answers the two machine paths as the contract has them.
type fakeServer struct {
	t    testing.TB
	ca   *testpki.CA
	http *httptest.Server

	mu      sync.Mutex
	jws     string
	changed chan struct{} // closed when jws changes
	problem *controlapi.Problem
	polls   []time.Duration // the wait of each poll
	reports []controlapi.Report
}

func newFakeServer(t testing.TB, ca *testpki.CA) *fakeServer {
	s := &fakeServer{t: t, ca: ca, changed: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+controlapi.RoutePolicy, s.policy)
	mux.HandleFunc("POST "+controlapi.RoutePolicyReport, s.report)
	s.http = httptest.NewTLSServer(mux)
	t.Cleanup(func() {
		s.publish("") // ends every poll
		s.http.Close()
	})
	return s
}

// publish makes another signed policy the current one.
func (s *fakeServer) publish(jws string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jws = jws
	close(s.changed)
	s.changed = make(chan struct{})
}

// fail makes every call end with this problem, or with nil none.
func (s *fakeServer) fail(p *controlapi.Problem) {
	s.mu.Lock()
	s.problem = p
	jws := s.jws
	s.mu.Unlock()
	s.publish(jws)
}

func (s *fakeServer) current() (jws string, changed chan struct{}, problem *controlapi.Problem) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.jws, s.changed, s.problem
}

func (s *fakeServer) policy(w http.ResponseWriter, r *http.Request) {
	proof, err := holderproof.Parse(r.Header.Get("Authorization"))
	if assert.NoError(s.t, err) {
		assert.NoError(s.t, proof.VerifySignature())
		assert.NoError(s.t, proof.Matches(holderproof.Request{Method: r.Method, Route: controlapi.RoutePolicy}))
	}
	wait, _ := strconv.Atoi(r.URL.Query().Get("wait"))
	s.mu.Lock()
	s.polls = append(s.polls, time.Duration(wait)*time.Second)
	s.mu.Unlock()
	timer := time.NewTimer(time.Duration(wait) * time.Second)
	defer timer.Stop()
	for {
		jws, changed, problem := s.current()
		etag := fmt.Sprintf("%q", strconv.Itoa(len(jws))+"-"+jws[max(0, len(jws)-20):])
		switch {
		case problem != nil:
			writeProblem(w, problem)
			return
		case jws == "":
			writeProblem(w, controlapi.NewProblem(controlapi.ReasonNotFound, ""))
			return
		case r.Header.Get("If-None-Match") != etag:
			w.Header().Set("ETag", etag)
			_, _ = w.Write([]byte(jws))
			return
		}
		select {
		case <-changed:
		case <-timer.C:
			w.WriteHeader(http.StatusNotModified)
			return
		case <-r.Context().Done():
			return
		}
	}
}

// writeProblem answers as the contract has it, or without a reason as any other
// server might.
func writeProblem(w http.ResponseWriter, p *controlapi.Problem) {
	if p.Reason == "" {
		http.Error(w, http.StatusText(p.Status), p.Status)
		return
	}
	w.Header().Set("Content-Type", controlapi.ProblemContentType)
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p)
}

func (s *fakeServer) report(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the reporter has stopped and closed its connection: nobody hears an answer
	}
	var report controlapi.Report
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	assert.NoError(s.t, decoder.Decode(&report))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.problem != nil {
		writeProblem(w, s.problem)
		return
	}
	s.reports = append(s.reports, report)
	w.WriteHeader(http.StatusNoContent)
}

func (s *fakeServer) pollCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.polls)
}

// policyOf makes a policy in which the holders are clusters, all allowed.
func policyOf(epoch, number int64, holders ...string) *controlapi.Policy {
	p := &controlapi.Policy{
		OperatorID: operatorID, Version: controlapi.Version{Epoch: epoch, Number: number},
		IssuedAt: controlapi.Seconds(time.Now()), Mode: controlapi.PolicyEnforce,
		RevokedSerials: []string{}, CRL: controlapi.RouteCRL(operatorID),
	}
	for _, holder := range holders {
		p.Senders = append(p.Senders, controlapi.PolicySender{
			Name: identity.SenderName(operatorID, holder), URI: identity.SenderURI(operatorID, controlapi.KindCluster, holder),
			Kind: controlapi.KindCluster, OrgID: "default", ClusterID: holder,
			State: controlapi.SenderAllowed, Since: p.Version,
		})
	}
	return p
}

func signPolicy(t testing.TB, ca *testpki.CA, p *controlapi.Policy) string {
	t.Helper()
	jws, err := signedpolicy.Sign(p, ca.Cert, ca.Key)
	require.NoError(t, err)
	return jws
}

// policyConfig is a configuration that takes its policy from the server, with
// the receiver's certificate in a folder of its own.
func policyConfig(t testing.TB, ca *testpki.CA, s *fakeServer) *Config {
	t.Helper()
	dir := t.TempDir()
	ca.Receiver(t).WriteDir(t, dir, ca)
	cfg := createDefaultConfig().(*Config)
	cfg.OperatorID = operatorID
	policy := PolicyConfig{Server: controlclient.NewDefaultConfig(), Report: reportSenders, CacheFile: filepath.Join(dir, "cache", "policy.jws")}
	policy.Server.Endpoint = s.http.URL
	policy.Server.TLS.CAFile = filepath.Join(dir, "server-ca.crt")
	serverCA := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.http.Certificate().Raw})
	require.NoError(t, os.WriteFile(policy.Server.TLS.CAFile, serverCA, 0o600))
	policy.Proof = ProofConfig{CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key"), CAFile: filepath.Join(dir, "ca.crt")}
	cfg.Policy = configoptional.Some(policy)
	return cfg
}

// inForce waits until the policy of this version is.
func (r *rig) inForce(epoch, number int64) {
	r.t.Helper()
	want := controlapi.Version{Epoch: epoch, Number: number}
	require.Eventually(r.t, func() bool { return r.ext.gate.list.Load().Version() == want }, waitLong, 5*time.Millisecond)
}
