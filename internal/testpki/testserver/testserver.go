// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package testserver

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/holderproof"
	"github.com/ikhnos/continuum/internal/testpki"
)

// Server is a control server of one operator.
type Server struct {
	// Server is the listener, nil of an offline server.
	*httptest.Server
	// Handler answers requests, with or without the listener.
	Handler http.Handler
	// CA is the operator's CA, Pin the pin of the server's own.
	CA  *testpki.CA
	Pin string

	t testing.TB

	mu      sync.Mutex // guards the rest
	life    time.Duration
	now     func() time.Time
	tokens  map[string]*token
	entries []*Entry
	calls   []string
	refuse  func(route string) *controlapi.Problem
	edit    func(*controlapi.Certificate)
	jti     map[string]bool
}

// Entry is one issued leaf.
type Entry struct {
	Leaf    *x509.Certificate
	Parent  *x509.Certificate // that it was renewed from
	Revoked bool

	answer controlapi.Certificate
	holder string // of a sender; "" for the receiver
}

type token struct {
	holder string
	key    string // SPKI hash that spent it
}

// NewOffline makes a server without a listener, for tests with a simulated
// clock: [Server.RoundTrip] calls it in place. Its leaves live 30 days.
func NewOffline(t testing.TB) *Server {
	t.Helper()
	s := &Server{
		CA: testpki.NewCA(t, "op-abc"), t: t, life: testpki.LeafLife, now: time.Now,
		tokens: map[string]*token{}, jti: map[string]bool{},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+controlapi.RouteEnroll, s.enroll)
	mux.HandleFunc("POST "+controlapi.RouteRenew, s.renew)
	s.Handler = mux
	return s
}

// New starts a server over TLS, whose leaves live 30 days.
func New(t testing.TB) *Server {
	t.Helper()
	s := NewOffline(t)
	own := testpki.NewCA(t, "op-server")
	sum := sha256.Sum256(own.Cert.RawSubjectPublicKeyInfo)
	s.Pin = "sha256:" + hex.EncodeToString(sum[:])
	pair := own.Receiver(t).TLS
	pair.Certificate = append(pair.Certificate, own.Cert.Raw)
	s.Server = httptest.NewUnstartedServer(s.Handler)
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// RoundTrip makes the server an http.RoundTripper that needs no network.
func (s *Server) RoundTrip(r *http.Request) (*http.Response, error) {
	recorder := httptest.NewRecorder()
	s.Handler.ServeHTTP(recorder, r)
	return recorder.Result(), nil
}

// Set changes the server under its lock.
func (s *Server) Set(change func(*Server)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// SetLife sets how long new leaves live.
func (s *Server) SetLife(d time.Duration) { s.Set(func(s *Server) { s.life = d }) }

// SetClock sets the server's clock.
func (s *Server) SetClock(now func() time.Time) { s.Set(func(s *Server) { s.now = now }) }

// Refuse lets refuse answer first; nil from it lets a call pass.
func (s *Server) Refuse(refuse func(route string) *controlapi.Problem) {
	s.Set(func(s *Server) { s.refuse = refuse })
}

// Edit changes every answer before it leaves.
func (s *Server) Edit(edit func(*controlapi.Certificate)) { s.Set(func(s *Server) { s.edit = edit }) }

// Token mints an enrolment token for a sender, or with "" for the receiver.
func (s *Server) Token(holder string) string {
	text := controlapi.NewSecret(controlapi.SecretEnrollment, s.CA.SPKIHash())
	s.Set(func(s *Server) { s.tokens[text] = &token{holder: holder} })
	return text
}

// Entries returns what was issued.
func (s *Server) Entries() []*Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.entries)
}

// Calls returns the routes that were called, in order.
func (s *Server) Calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// RevokeAll revokes every leaf.
func (s *Server) RevokeAll() {
	s.Set(func(s *Server) {
		for _, e := range s.entries {
			e.Revoked = true
		}
	})
}

func (s *Server) enroll(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var body controlapi.EnrollRequest
	if _, ok := s.begin(w, r, &body); !ok {
		return
	}
	tok, known := s.tokens[body.Token]
	if !known {
		s.problem(w, controlapi.ReasonTokenUnknown)
		return
	}
	key, spki, ok := requestKey(body.CSR)
	switch {
	case !ok:
		s.problem(w, controlapi.ReasonCSRInvalid)
	case tok.key != "" && tok.key != spki:
		s.problem(w, controlapi.ReasonTokenSpent)
	default:
		if s.issue(w, key, spki, tok.holder, nil) {
			tok.key = spki
		}
	}
}

func (s *Server) renew(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var body controlapi.RenewRequest
	text, ok := s.begin(w, r, &body)
	if !ok {
		return
	}
	entry, reason := s.prove(r, text)
	if reason != "" {
		s.problem(w, reason)
		return
	}
	key, spki, ok := requestKey(body.CSR)
	switch {
	case !ok:
		s.problem(w, controlapi.ReasonCSRInvalid)
	case spki == spkiOf(entry.Leaf):
		s.problem(w, controlapi.ReasonKeyInUse)
	default:
		s.issue(w, key, spki, entry.holder, entry.Leaf)
	}
}

// begin counts the call, lets the test refuse it, and reads its body.
func (s *Server) begin(w http.ResponseWriter, r *http.Request, body any) ([]byte, bool) {
	s.calls = append(s.calls, r.URL.Path)
	w.Header().Set("Date", s.now().UTC().Format(http.TimeFormat))
	if s.refuse != nil {
		if problem := s.refuse(r.URL.Path); problem != nil {
			write(w, problem)
			return nil, false
		}
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, controlapi.MaxBodyBytes))
	if err != nil || json.Unmarshal(text, body) != nil {
		s.problem(w, controlapi.ReasonRequestMalformed)
		return nil, false
	}
	return text, true
}

// prove checks a holder proof in the contract's order and finds the entry.
func (s *Server) prove(r *http.Request, body []byte) (*Entry, controlapi.Reason) {
	proof, err := holderproof.Parse(r.Header.Get("Authorization"))
	if err != nil {
		return nil, controlapi.ReasonProofInvalid
	}
	if proof.Leaf.CheckSignatureFrom(s.CA.Cert) != nil {
		return nil, controlapi.ReasonLeafUnknown
	}
	request := holderproof.Request{Method: r.Method, Route: r.URL.Path, Body: body}
	if proof.VerifySignature() != nil || proof.Matches(request) != nil {
		return nil, controlapi.ReasonProofInvalid
	}
	if proof.CheckClock(s.now()) != nil {
		return nil, controlapi.ReasonClockSkew
	}
	i := slices.IndexFunc(s.entries, func(e *Entry) bool { return e.Leaf.Equal(proof.Leaf) })
	switch {
	case i < 0:
		return nil, controlapi.ReasonLeafNotInLedger
	case s.entries[i].Revoked:
		return nil, controlapi.ReasonLeafRevoked
	case s.now().After(proof.Leaf.NotAfter):
		return nil, controlapi.ReasonLeafEnded
	case s.jti[proof.Claims.JTI]:
		return nil, controlapi.ReasonProofReplayed
	}
	s.jti[proof.Claims.JTI] = true
	return s.entries[i], ""
}

// issue answers with the certificate of a key, the same one for the same key.
func (s *Server) issue(w http.ResponseWriter, key any, spki, holder string, parent *x509.Certificate) bool {
	now := controlapi.Seconds(s.now())
	for _, e := range s.entries {
		if spkiOf(e.Leaf) != spki {
			continue
		}
		switch {
		case e.holder != holder:
			s.problem(w, controlapi.ReasonKeyInUse)
		case e.Revoked:
			s.problem(w, controlapi.ReasonLeafRevoked)
		case now.After(e.Leaf.NotAfter):
			s.problem(w, controlapi.ReasonLeafEnded)
		default:
			s.answer(w, e)
			return true
		}
		return false
	}
	e := s.record(key, holder, parent, now)
	s.answer(w, e)
	return true
}

func (s *Server) record(key any, holder string, parent *x509.Certificate, now time.Time) *Entry {
	dates := testpki.Between(now.Add(-testpki.LeafBackdate), now.Add(s.life))
	role, leaf := controlapi.RoleReceiver, (*testpki.Leaf)(nil)
	if holder == "" {
		leaf = s.CA.Receiver(s.t, testpki.ForKey(key), dates)
	} else {
		role, leaf = controlapi.RoleSender, s.CA.Sender(s.t, controlapi.KindCluster, holder, testpki.ForKey(key), dates)
	}
	serial := leaf.Cert.SerialNumber.Text(16)
	if len(serial)%2 == 1 {
		serial = "0" + serial
	}
	after := now.Add(s.life / 3)
	e := &Entry{Leaf: leaf.Cert, Parent: parent, holder: holder, answer: controlapi.Certificate{
		Certificate: string(leaf.CertPEM), CA: string(s.CA.PEM), Serial: serial,
		Role: role, Name: leaf.Cert.Subject.CommonName,
		NotBefore: leaf.Cert.NotBefore, NotAfter: leaf.Cert.NotAfter, RenewAfter: after, RenewBy: after.Add(s.life / 15),
	}}
	s.entries = append(s.entries, e)
	return e
}

func (s *Server) answer(w http.ResponseWriter, e *Entry) {
	answer := e.answer
	if s.edit != nil {
		s.edit(&answer)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

func (s *Server) problem(w http.ResponseWriter, reason controlapi.Reason) {
	problem := controlapi.NewProblem(reason, "")
	if reason == controlapi.ReasonClockSkew {
		now := controlapi.Seconds(s.now())
		problem.ServerTime = &now
	}
	write(w, problem)
}

func write(w http.ResponseWriter, problem *controlapi.Problem) {
	w.Header().Set("Content-Type", controlapi.ProblemContentType)
	w.WriteHeader(problem.Status)
	_ = json.NewEncoder(w).Encode(problem)
}

// requestKey is the key of a certificate request and its hash.
func requestKey(csrPEM string) (key any, spki string, ok bool) {
	block, _ := pem.Decode([]byte(csrPEM))
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, "", false
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil || csr.CheckSignature() != nil {
		return nil, "", false
	}
	sum := sha256.Sum256(csr.RawSubjectPublicKeyInfo)
	return csr.PublicKey, string(sum[:]), true
}

func spkiOf(leaf *x509.Certificate) string {
	sum := sha256.Sum256(leaf.RawSubjectPublicKeyInfo)
	return string(sum[:])
}
