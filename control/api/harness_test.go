// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/liveness"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/control/pki"
	"github.com/ikhnos/continuum/control/policy"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/holderproof"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock is the time of the start, moved by a test alone: how long a machine takes
// changes nothing.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// harness is a whole control server behind real TLS on a real store.
type harness struct {
	t        *testing.T
	clock    *clock
	store    *ledger.Store
	hub      *policy.Hub
	registry *prometheus.Registry
	log      *lockedBuffer
	api      *Server
	http     *httptest.Server
	token    string // of role server
	org      string // organisation that paths are in
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// databaseURL is that of a harness: SQLite when empty.
var databaseURL string

func newHarness(t *testing.T, edit ...func(*Config)) *harness {
	t.Helper()
	h := &harness{t: t, clock: &clock{t: time.Now()}, registry: prometheus.NewRegistry(), log: &lockedBuffer{}, org: operators.DefaultOrg}
	log := slog.New(slog.NewTextHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var err error
	h.store, err = ledger.Open(t.Context(), ledger.Options{DataDir: t.TempDir(), DatabaseURL: databaseURL, Now: h.clock.now, Logger: log})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.store.Close()) })
	setting, err := pki.NewSealSetting(nil, pki.DefaultSealCost)
	require.NoError(t, err)
	sealer, err := pki.OpenSealer(nil, setting)
	require.NoError(t, err)
	keyring := pki.NewKeyring(sealer)
	h.hub = policy.NewHub(h.store, keyring, log)
	ops := operators.New(operators.Config{Store: h.store, CAs: operators.SealedCAs{Sealer: sealer}, LastWords: h.hub, Now: h.clock.now})
	h.token = controlapi.NewSecret(controlapi.SecretAdmin, nil)
	_, err = ops.Bootstrap(t.Context(), h.token)
	require.NoError(t, err)
	issuer, err := pki.NewIssuer(NewRecorder(h.store, 720*time.Hour), keyring, false)
	require.NoError(t, err)
	cfg := Config{
		Store: h.store, Operators: ops, Issuer: issuer, Policy: h.hub, Liveness: liveness.New(h.store, ops, func() liveness.ServerFacts { return liveness.ServerFacts{Version: "test"} }),
		Registry: h.registry, Log: log, Now: h.clock.now,
	}
	for _, e := range edit {
		e(&cfg)
	}
	server, err := New(cfg)
	require.NoError(t, err)
	h.api = server
	h.serve(server.Admin)
	h.runHub()
	t.Cleanup(func() { requireDocumented(t, server) })
	return h
}

// requireDocumented wants every refusal that the test has met in the API document,
// at the operation that answered it.
func requireDocumented(t *testing.T, server *Server) {
	t.Helper()
	registry := prometheus.NewRegistry()
	require.NoError(t, registry.Register(server.metrics.refusals))
	families, err := registry.Gather()
	require.NoError(t, err)
	if len(families) == 0 {
		return
	}
	for _, metric := range families[0].GetMetric() {
		labels := metric.GetLabel() // sorted: path, reason
		method, path, known := strings.Cut(labels[0].GetValue(), " ")
		reason := controlapi.Reason(labels[1].GetValue())
		if !known { // no operation, or the web page
			continue
		}
		op := server.operations()[method+" "+path]
		require.NotNil(t, op, "%s %s is not in the API document", method, path)
		answer := op.Responses[strconv.Itoa(reason.Info().Status)]
		require.NotNil(t, answer, "%s %s answers %s, which its description has not", method, path, reason)
		require.Contains(t, strings.Split(answer.Description, ", "), string(reason), "%s %s", method, path)
	}
}

// operations are those of the API document, by method and path.
func (s *Server) operations() map[string]*huma.Operation {
	all := map[string]*huma.Operation{}
	for path, item := range s.document.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Put, item.Post, item.Delete, item.Patch} {
			if op != nil {
				all[op.Method+" "+path] = op
			}
		}
	}
	return all
}

func (h *harness) serve(handler http.Handler) {
	h.http = httptest.NewUnstartedServer(handler)
	h.http.EnableHTTP2 = true
	h.http.Config.MaxHeaderBytes = controlapi.MaxHeaderBytes
	h.http.StartTLS()
	h.t.Cleanup(h.http.Close)
}

func (h *harness) runHub() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.hub.Run(ctx) }()
	h.t.Cleanup(func() {
		h.hub.Stop()
		cancel()
		require.NoError(h.t, <-done)
	})
}

// answered is an answer with its body read.
type answered struct {
	*http.Response
	body []byte
}

func (a *answered) decode(t *testing.T, out any) {
	t.Helper()
	require.NoError(t, json.Unmarshal(a.body, out), "%s", a.body)
}

// send sends a request as it is.
func (h *harness) send(req *http.Request) *answered {
	h.t.Helper()
	resp, err := h.http.Client().Do(req)
	require.NoError(h.t, err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(h.t, err)
	return &answered{resp, body}
}

// request builds one; body is text, or encoded as JSON unless nil.
func (h *harness) request(method, path, token string, body any) *http.Request {
	h.t.Helper()
	var content []byte
	switch b := body.(type) {
	case nil:
	case string:
		content = []byte(b)
	default:
		var err error
		content, err = json.Marshal(b)
		require.NoError(h.t, err)
	}
	req, err := http.NewRequestWithContext(h.t.Context(), method, h.http.URL+path, bytes.NewReader(content))
	require.NoError(h.t, err)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return req
}

// admin calls the administration with the first token and wants a success.
func admin1[T any](h *harness, method, path string, body any) T {
	h.t.Helper()
	a := h.send(h.request(method, "/api/v1/orgs/"+h.org+path, h.token, body))
	require.Less(h.t, a.StatusCode, 300, "%s %s: %s", method, path, a.body)
	var out T
	if len(a.body) > 0 {
		a.decode(h.t, &out)
	}
	return out
}

// refused wants a well-formed problem of a reason.
func refused(t *testing.T, a *answered, reason controlapi.Reason) *controlapi.Problem {
	t.Helper()
	var p controlapi.Problem
	require.NoError(t, json.Unmarshal(a.body, &p), "status %d: %s", a.StatusCode, a.body)
	info := reason.Info()
	require.Equal(t, reason, p.Reason, "%s", a.body)
	require.Equal(t, info.Status, a.StatusCode)
	require.Equal(t, info.Status, p.Status)
	require.Equal(t, info.Retryable, p.Retryable)
	require.Equal(t, info.Title, p.Title)
	require.Equal(t, "/help/errors/"+string(reason), p.Type)
	require.NotEmpty(t, p.Remedy)
	require.NotEmpty(t, p.Detail)
	require.Equal(t, a.Header.Get("X-Request-Id"), p.RequestID)
	require.NotEmpty(t, p.RequestID)
	require.Equal(t, controlapi.ProblemContentType, a.Header.Get("Content-Type"))
	return &p
}

// holder is somebody with a leaf.
type holder struct {
	key  *ecdsa.PrivateKey
	leaf *x509.Certificate
	controlapi.Certificate
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return key
}

func csrOf(t *testing.T, key any) string {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}

// operator creates an operator, a cluster for each id, and connects them.
func (h *harness) operator(id string, clusters ...string) {
	h.t.Helper()
	admin1[operators.Operator](h, http.MethodPut, "/operators/"+id, operators.OperatorRequest{
		Name: id, Role: operators.RoleRegional, Destination: &operators.Destination{Kind: operators.DestinationOTLP, Endpoint: "store.example.com:4317"},
	})
	for _, cluster := range clusters {
		admin1[operators.Cluster](h, http.MethodPut, "/clusters/"+cluster, operators.ClusterRequest{})
		admin1[operators.Cluster](h, http.MethodPost, "/clusters/"+cluster+"/approve", nil)
		admin1[operators.Sender](h, http.MethodPut, "/operators/"+id+"/senders/"+cluster, operators.SenderRequest{})
	}
}

// mint makes an enrolment token, for a sender or, with "", the receiver.
func (h *harness) mint(operatorID, sender string) string {
	h.t.Helper()
	r := operators.TokenRequest{Role: controlapi.RoleReceiver, Sender: sender}
	if sender != "" {
		r.Role = controlapi.RoleSender
	}
	return admin1[operators.Token](h, http.MethodPost, "/operators/"+operatorID+"/enrollment-tokens", r).Token
}

func (h *harness) enroll(token string, key *ecdsa.PrivateKey) *answered {
	h.t.Helper()
	return h.send(h.request(http.MethodPost, controlapi.RouteEnroll, "", controlapi.EnrollRequest{Token: token, CSR: csrOf(h.t, key)}))
}

// holder enrols a sender or, with "", the receiver of an operator.
func (h *harness) holder(operatorID, sender string) *holder {
	h.t.Helper()
	key := newKey(h.t)
	a := h.enroll(h.mint(operatorID, sender), key)
	require.Equal(h.t, http.StatusOK, a.StatusCode, "%s", a.body)
	return h.holding(a, key)
}

func (h *harness) holding(a *answered, key *ecdsa.PrivateKey) *holder {
	h.t.Helper()
	held := &holder{key: key}
	a.decode(h.t, &held.Certificate)
	block, rest := pem.Decode([]byte(held.Certificate.Certificate))
	require.NotNil(h.t, block)
	require.Empty(h.t, bytes.TrimSpace(rest))
	var err error
	held.leaf, err = x509.ParseCertificate(block.Bytes)
	require.NoError(h.t, err)
	return held
}

// proven builds a request with a fresh proof of held.
func (h *harness) proven(held *holder, method, route, query string, body []byte) *http.Request {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), method, h.http.URL+route+query, bytes.NewReader(body))
	require.NoError(h.t, err)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	proof, err := holderproof.Sign(held.key, held.leaf.Raw, holderproof.Request{Method: method, Route: route, Body: body}, h.clock.now())
	require.NoError(h.t, err)
	req.Header.Set("Authorization", holderproof.Scheme+" "+proof)
	return req
}

func (h *harness) renew(held *holder, key *ecdsa.PrivateKey) *answered {
	h.t.Helper()
	body, err := json.Marshal(controlapi.RenewRequest{CSR: csrOf(h.t, key)})
	require.NoError(h.t, err)
	return h.send(h.proven(held, http.MethodPost, controlapi.RouteRenew, "", body))
}

func (h *harness) policy(held *holder, etag, query string) *answered {
	h.t.Helper()
	req := h.proven(held, http.MethodGet, controlapi.RoutePolicy, query, nil)
	if etag != "" {
		req.Header.Set("If-None-Match", etag)
	}
	return h.send(req)
}

func (h *harness) report(held *holder, r *controlapi.Report) *answered {
	h.t.Helper()
	body, err := json.Marshal(r)
	require.NoError(h.t, err)
	return h.send(h.proven(held, http.MethodPost, controlapi.RoutePolicyReport, "", body))
}

func loopback() []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }
