// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package controlclient

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.uber.org/goleak"

	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/holderproof"
	"github.com/ikhnos/continuum/internal/testpki"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func isPinMismatch(err error) bool { return errors.Is(err, ErrPinMismatch) }

// pinnedClient is a client of the server by the collector's way of building it.
func pinnedClient(t *testing.T, handler http.Handler, path string, opts ...Option) *Client {
	t.Helper()
	ca := testpki.NewCA(t, "op-server")
	server := serve(t, handler, ca.Receiver(t), ca.Cert)
	cfg := NewDefaultConfig()
	cfg.Endpoint, cfg.CAPins, cfg.Timeout = server.URL+path, []string{pinOf(ca.Cert)}, time.Minute
	client, err := cfg.NewClient(t.Context(), componenttest.NewNopHost(), componenttest.NewNopTelemetrySettings(), opts...)
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	return client
}

func newHolder(t *testing.T) Holder {
	leaf := testpki.NewCA(t, "op-abc").Receiver(t)
	return Holder{Key: leaf.Key, Leaf: leaf.Cert.Raw}
}

func answerProblem(w http.ResponseWriter, p *controlapi.Problem) {
	w.Header().Set("Content-Type", controlapi.ProblemContentType)
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p)
}

// checkProof verifies what a server would, with its clock at now.
func checkProof(r *http.Request, now time.Time) (string, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return "", err
	}
	proof, err := holderproof.Parse(r.Header.Get("Authorization"))
	if err != nil {
		return "", err
	}
	route := strings.TrimPrefix(r.URL.Path, "/prefix")
	return proof.Claims.JTI, errors.Join(proof.VerifySignature(),
		proof.Matches(holderproof.Request{Method: r.Method, Route: route, Body: body}), proof.CheckClock(now))
}

// BD-4: each call goes to its route below the endpoint's path, in the form of
// the contract, with a proof that covers the body and not the prefix.
func TestCalls(t *testing.T) {
	certificate := controlapi.Certificate{Serial: "0a", Role: controlapi.RoleReceiver}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /prefix"+controlapi.RouteEnroll, func(w http.ResponseWriter, r *http.Request) {
		var body controlapi.EnrollRequest
		if r.Header.Get("Authorization") != "" || json.NewDecoder(r.Body).Decode(&body) != nil || body.Token != "iktok_x" || body.CSR != "csr" {
			w.WriteHeader(http.StatusTeapot)
		}
		_ = json.NewEncoder(w).Encode(certificate)
	})
	proven := func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if _, err := checkProof(r, time.Now()); err != nil {
				answerProblem(w, controlapi.NewProblem(controlapi.ReasonProofInvalid, err.Error()))
				return
			}
			next(w, r)
		}
	}
	mux.HandleFunc("POST /prefix"+controlapi.RouteRenew, proven(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(certificate)
	}))
	mux.HandleFunc("POST /prefix"+controlapi.RoutePolicyReport, proven(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	}))
	mux.HandleFunc("GET /prefix"+controlapi.RoutePolicy, proven(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1.7"`)
		if r.Header.Get("If-None-Match") == `"1.7"` && r.URL.Query().Get("wait") == "2" {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = io.WriteString(w, "a.b.c\n")
	}))
	mux.HandleFunc("POST /prefix"+controlapi.RouteHeartbeat, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer ikhb_x" || r.Header.Get("Content-Type") != "application/json" {
			answerProblem(w, controlapi.NewProblem(controlapi.ReasonHeartbeatUnauthorized, ""))
		}
	})
	client, holder, ctx := pinnedClient(t, mux, "/prefix/"), newHolder(t), t.Context()

	got, err := client.Enroll(ctx, "iktok_x", []byte("csr"))
	require.NoError(t, err)
	require.Equal(t, &certificate, got)
	got, err = client.Renew(ctx, holder, []byte("csr"))
	require.NoError(t, err)
	require.Equal(t, &certificate, got)
	policy, err := client.Policy(ctx, holder, "", 0)
	require.NoError(t, err)
	require.Equal(t, PolicyAnswer{JWS: "a.b.c", ETag: `"1.7"`}, policy)
	policy, err = client.Policy(ctx, holder, policy.ETag, 2*time.Second)
	require.NoError(t, err)
	require.Equal(t, PolicyAnswer{ETag: `"1.7"`, NotModified: true}, policy)
	require.NoError(t, client.Report(ctx, holder, &controlapi.Report{}))
	require.NoError(t, client.Heartbeat(ctx, "ikhb_x\n", &controlapi.Heartbeat{}))
	require.Zero(t, client.ClockOffset())
}

// the clock is corrected by serverTime, once a call, with a new proof, and
// the correction lasts.
func TestClockSkew(t *testing.T) {
	var attempts atomic.Int32
	seen := map[string]bool{}
	serverTime := time.Now().Add(9 * time.Minute)
	client := pinnedClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		attempts.Add(1)
		w.Header().Set("Date", serverTime.UTC().Format(http.TimeFormat))
		jti, err := checkProof(r, serverTime)
		if seen[jti] {
			err = errors.New("replayed")
		}
		seen[jti] = true
		if errors.Is(err, holderproof.ErrClockSkew) {
			problem := controlapi.NewProblem(controlapi.ReasonClockSkew, "")
			seconds := controlapi.Seconds(serverTime)
			problem.ServerTime = &seconds
			answerProblem(w, problem)
		} else if err != nil {
			answerProblem(w, controlapi.NewProblem(controlapi.ReasonProofInvalid, err.Error()))
		}
	}), "")
	holder := newHolder(t)
	require.NoError(t, client.Report(t.Context(), holder, &controlapi.Report{}))
	require.EqualValues(t, 2, attempts.Load())
	require.NoError(t, client.Report(t.Context(), holder, &controlapi.Report{}))
	require.EqualValues(t, 3, attempts.Load())
	require.InDelta(t, 9*60, client.ClockOffset().Seconds(), 60) // less what this took
}

func TestClockSkewIsTriedOnce(t *testing.T) {
	for name, reason := range map[string]controlapi.Reason{"skew": controlapi.ReasonClockSkew, "replayed": controlapi.ReasonProofReplayed} {
		t.Run(name, func(t *testing.T) {
			var attempts atomic.Int32
			client := pinnedClient(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				attempts.Add(1)
				problem, now := controlapi.NewProblem(reason, ""), time.Now()
				problem.ServerTime = &now
				answerProblem(w, problem)
			}), "")
			var problem *controlapi.Problem
			require.ErrorAs(t, client.Report(t.Context(), newHolder(t), &controlapi.Report{}), &problem)
			require.Equal(t, reason, problem.Reason)
			require.EqualValues(t, 2, attempts.Load())
		})
	}
}

// trap-14: what is not an answer of our server is told apart from a refusal.
func TestAnswersThatAreNoProblem(t *testing.T) {
	for name, tc := range map[string]struct {
		handler http.HandlerFunc
		text    string
	}{
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://elsewhere.invalid/", http.StatusTemporaryRedirect)
		}, "redirects"},
		"page of a proxy": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", http.StatusBadGateway) }, "502"},
		"problem of somebody else": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", controlapi.ProblemContentType)
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"title":"no"}`)
		}, "403"},
		"problem without end": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", controlapi.ProblemContentType)
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"reason":"forbidden","detail":"`+strings.Repeat("x", maxAnswerBytes)+`"}`)
		}, "403"},
		"certificate without end": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat(" ", maxAnswerBytes+1))
		}, "too large"},
		"not JSON": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }, "reading the certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := pinnedClient(t, tc.handler, "").Enroll(t.Context(), "iktok_x", nil)
			require.ErrorContains(t, err, tc.text)
			var problem *controlapi.Problem
			require.NotErrorAs(t, err, &problem)
			require.Equal(t, tc.text == "403", Refused(err))
			require.NotContains(t, err.Error(), "iktok_x")
		})
	}
}

func TestProblemIsReturned(t *testing.T) {
	client := pinnedClient(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answerProblem(w, controlapi.NewProblem(controlapi.ReasonTokenSpent, ""))
	}), "")
	_, err := client.Enroll(t.Context(), "iktok_x", nil)
	var problem *controlapi.Problem
	require.ErrorAs(t, err, &problem)
	require.Equal(t, controlapi.ReasonTokenSpent, problem.Reason)
	require.Equal(t, http.StatusUnauthorized, problem.Status)
	require.True(t, Refused(err))
}

// A long poll may last its wait and the timeout; another call only the timeout.
func TestDeadlines(t *testing.T) {
	const slow = 50 * time.Second // what a machine may take
	left := make(chan time.Duration, 2)
	client, err := New(&http.Client{Timeout: 5 * time.Minute, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		deadline, _ := r.Context().Deadline()
		left <- time.Until(deadline)
		return nil, context.DeadlineExceeded
	})}, "https://ikhnos.example.com", time.Now)
	require.NoError(t, err)
	_, err = client.Policy(t.Context(), newHolder(t), `"1"`, time.Minute)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Greater(t, <-left, 6*time.Minute-slow)
	require.ErrorIs(t, client.Heartbeat(t.Context(), "", &controlapi.Heartbeat{}), context.DeadlineExceeded)
	require.InDelta(t, 5*time.Minute-slow/2, <-left, float64(slow/2))

	_, err = New(http.DefaultClient, "ftp://x", time.Now)
	require.ErrorIs(t, err, errPlainHTTP)
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// case-10: after CloseIdleConnections the next call opens a new connection.
func TestCloseIdleConnections(t *testing.T) {
	addresses := make(chan string, 1)
	client := pinnedClient(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { addresses <- r.RemoteAddr }), "")
	beat := func() string {
		require.NoError(t, client.Heartbeat(t.Context(), "", &controlapi.Heartbeat{}))
		return <-addresses
	}
	first := beat()
	require.Equal(t, first, beat())
	// A connection is idle a moment after its answer was read.
	require.Eventually(t, func() bool {
		client.CloseIdleConnections()
		return beat() != first
	}, time.Minute, 10*time.Millisecond)
}

func TestPlainHTTP(t *testing.T) {
	server := httptest.NewServer(noContent())
	defer server.Close()
	cfg := NewDefaultConfig()
	cfg.Endpoint = server.URL
	_, err := cfg.NewClient(t.Context(), nil, componenttest.NewNopTelemetrySettings())
	require.ErrorIs(t, err, errPlainHTTP)
	cfg.PlainHTTP = true
	client, err := cfg.NewClient(t.Context(), nil, componenttest.NewNopTelemetrySettings(), WithClock(time.Now))
	require.NoError(t, err)
	defer client.CloseIdleConnections()
	require.NoError(t, client.Heartbeat(t.Context(), "", &controlapi.Heartbeat{}))
}
