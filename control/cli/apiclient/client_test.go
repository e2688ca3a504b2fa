// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package apiclient

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve answers over real TLS; the client trusts it by its pin.
func serve(t *testing.T, timeout time.Duration, handler http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	sum := sha256.Sum256(server.Certificate().RawSubjectPublicKeyInfo)
	client, err := New(Config{
		Server: server.URL + "/prefix/", Token: controlapi.NewSecret(controlapi.SecretAdmin, nil) + "\n",
		CAPins: []string{"sha256:" + hex.EncodeToString(sum[:])}, Org: "acme", Timeout: timeout,
	})
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	return client
}

func TestNewRefuses(t *testing.T) {
	token := controlapi.NewSecret(controlapi.SecretAdmin, nil)
	for name, cfg := range map[string]Config{
		"no server":   {Token: token},
		"http":        {Server: "http://h", Token: token},
		"no host":     {Server: "https://", Token: token},
		"user":        {Server: "https://u:p@h", Token: token},
		"query":       {Server: "https://h?x", Token: token},
		"other token": {Server: "https://h", Token: controlapi.NewSecret(controlapi.SecretHeartbeat, nil)},
		"mistyped":    {Server: "https://h", Token: token[:20]},
		"bad pin":     {Server: "https://h", Token: token, CAPins: []string{"sha256:00"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(cfg)
			require.Error(t, err)
			assert.NotContains(t, err.Error(), token[:20])
		})
	}
}

func TestListsReadEveryPage(t *testing.T) {
	client := serve(t, 0, func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "/prefix/api/v1/orgs/acme/clusters", r.URL.Path)
		assert.Equal(t, "500", r.URL.Query().Get("limit"))
		next := map[string]string{"": "a", "a": "b", "b": ""}[r.URL.Query().Get("cursor")]
		_, _ = fmt.Fprintf(w, `{"items":[{"id":%q}],"nextCursor":%q,"newer":1}`, "c"+next, next)
	})
	clusters, err := client.Clusters(t.Context())
	require.NoError(t, err)
	require.Len(t, clusters, 3)
	assert.Equal(t, "ca", clusters[0].ID)
	assert.Equal(t, "c", clusters[2].ID)
}

func TestAListThatDoesNotEnd(t *testing.T) {
	client := serve(t, 0, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"items":[],"nextCursor":"x"}`)
	})
	_, err := client.Orgs(t.Context())
	var away *UnreachableError
	assert.ErrorAs(t, err, &away)
}

func TestProblems(t *testing.T) {
	client := serve(t, 0, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", controlapi.ProblemContentType+"; charset=utf-8")
		w.WriteHeader(http.StatusConflict)
		_ = json.NewEncoder(w).Encode(controlapi.NewProblem(controlapi.ReasonNameTaken, ""))
	})
	_, err := client.CreateOrg(t.Context(), "acme", "Acme")
	var problem *controlapi.Problem
	require.ErrorAs(t, err, &problem)
	assert.Equal(t, controlapi.ReasonNameTaken, problem.Reason)
	assert.ErrorContains(t, err, "POST /api/v1/orgs: ")
}

// The token is for the server alone: a redirect is an answer, not an order.
func TestRedirectsAreNotFollowed(t *testing.T) {
	calls := 0
	client := serve(t, 0, func(w http.ResponseWriter, _ *http.Request) {
		calls++
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	_, err := client.PutCluster(t.Context(), "c1", operators.ClusterRequest{})
	var away *UnreachableError
	require.ErrorAs(t, err, &away)
	assert.Equal(t, 1, calls)
}

func TestTimeoutAndCancellation(t *testing.T) {
	client := serve(t, 20*time.Millisecond, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	_, err := client.Orgs(t.Context())
	var away *UnreachableError
	require.ErrorAs(t, err, &away)
	assert.ErrorIs(t, err, context.DeadlineExceeded)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = client.Orgs(ctx)
	assert.ErrorIs(t, err, context.Canceled)
	assert.False(t, errors.As(err, new(*UnreachableError)) && !errors.Is(err, context.Canceled), "an interruption is nobody's fault")
}

// A call that lets the server wait has that much longer.
func TestWaitIsAddedToTheTimeout(t *testing.T) {
	client := serve(t, 20*time.Millisecond, func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "60", r.URL.Query().Get("wait"))
		select {
		case <-r.Context().Done():
		case <-time.After(60 * time.Millisecond):
			_, _ = io.WriteString(w, `{"receiptId":"rcp-1"}`)
		}
	})
	receipt, err := client.RevokeSender(t.Context(), "op-eu", "c1", operators.RevokeHold, "", time.Minute)
	require.NoError(t, err)
	assert.Equal(t, "rcp-1", receipt.ReceiptID)
}

// An id never reaches another path, whatever it holds.
func TestIDsAreEscaped(t *testing.T) {
	client := serve(t, 0, func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "/prefix/api/v1/orgs/acme/clusters/..%2F..%2Forgs%3Fx", r.URL.EscapedPath())
		_, _ = io.WriteString(w, `{}`)
	})
	_, err := client.Cluster(t.Context(), "../../orgs?x")
	require.NoError(t, err)
}

func TestAnAnswerThatIsTooLarge(t *testing.T) {
	chunk := make([]byte, 1<<20)
	client := serve(t, 0, func(w http.ResponseWriter, _ *http.Request) {
		for range maxAnswerBytes>>20 + 1 {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	_, err := client.Orgs(t.Context())
	assert.ErrorContains(t, err, "larger than 32 MiB")
}
