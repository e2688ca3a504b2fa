// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/extension/extensiontest"

	"github.com/ikhnos/continuum/components/extension/heartbeat/internal/metadata"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/runtimestate"
	"github.com/ikhnos/continuum/internal/testpki"
)

// arrival is one request at the control server.
type arrival struct {
	path, authorization, contentType string
	body                             []byte
}

// controlServer is a real HTTPS server that answers every beat with answer. It
// returns its base URL, the CA file that trusts it and what arrives.
func controlServer(t *testing.T, answer http.HandlerFunc) (url, caFile string, arrivals <-chan arrival) {
	t.Helper()
	ca := testpki.NewCA(t, "op-test")
	caFile = filepath.Join(t.TempDir(), "ca.crt")
	require.NoError(t, os.WriteFile(caFile, ca.PEM, 0o600))
	ch := make(chan arrival, 16)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the extension was stopped in the middle of a beat
		}
		ch <- arrival{r.URL.Path, r.Header.Get("Authorization"), r.Header.Get("Content-Type"), body}
		answer(w, r)
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{ca.Receiver(t).TLS}, MinVersion: tls.VersionTLS13}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL, caFile, ch
}

// next waits for a beat.
func next(t *testing.T, arrivals <-chan arrival) arrival {
	t.Helper()
	select {
	case a := <-arrivals:
		return a
	case <-time.After(time.Minute):
		t.Fatal("no heartbeat arrived")
		return arrival{}
	}
}

func accept(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }

// TestOverHTTPS: HB-6, HB-7, HB-20, A-7: what is sent, and to where.
func TestOverHTTPS(t *testing.T) {
	url, caFile, arrivals := controlServer(t, accept)
	cfg := createDefaultConfig().(*Config)
	cfg.Server.Endpoint, cfg.Server.TLS.CAFile = url, caFile
	cfg.Secret = "ikhb_example"
	require.NoError(t, cfg.Validate())
	set := extensiontest.NewNopSettings(metadata.Type)
	set.BuildInfo.Version = "1.2.3"
	set.Resource.Attributes().PutStr("service.instance.id", "instance-1")
	notAfter := time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)
	runtimestate.SetCertificates("instance-1", "ikhnosrenew", []controlapi.HeartbeatCertificate{
		{Name: "op-a", Serial: "0a", NotAfter: notAfter, State: controlapi.CertificateUsable},
	})
	runtimestate.SetPolicy("instance-1", &controlapi.Version{Epoch: 2, Number: 9})
	defer runtimestate.Drop("instance-1", "ikhnosrenew")
	defer runtimestate.SetPolicy("instance-1", nil)

	before := controlapi.Seconds(time.Now())
	h, err := newHeartbeat(cfg, set)
	require.NoError(t, err)
	require.NoError(t, h.Start(context.Background(), componenttest.NewNopHost()))
	require.NoError(t, h.Ready())
	got := next(t, arrivals)
	require.NoError(t, h.Shutdown(context.Background()))

	require.Equal(t, controlapi.RouteHeartbeat, got.path) // HB-20
	require.Equal(t, "Bearer ikhb_example", got.authorization)
	require.Equal(t, "application/json", got.contentType)
	// HB-7: these fields and no others.
	var body map[string]any
	require.NoError(t, json.Unmarshal(got.body, &body))
	startedAt, err := time.Parse(time.RFC3339, body["startedAt"].(string))
	require.NoError(t, err)
	require.False(t, startedAt.Before(before))
	delete(body, "startedAt")
	require.Equal(t, map[string]any{
		"version":  "1.2.3",
		"instance": "instance-1",
		"status":   "ok",
		"certificates": []any{map[string]any{
			"name": "op-a", "serial": "0a", "notAfter": "2027-01-02T03:04:05Z", "state": "usable",
		}},
		"policy": map[string]any{"epoch": 2.0, "number": 9.0},
	}, body)
}

// Certificates and policy are [] and null when nobody knows them.
func TestBodyWithoutNeighbours(t *testing.T) {
	h, err := newHeartbeat(createDefaultConfig().(*Config), extensiontest.NewNopSettings(metadata.Type))
	require.NoError(t, err)
	text, err := json.Marshal(h.body())
	require.NoError(t, err)
	require.Contains(t, string(text), `"certificates":[],"policy":null`)
	require.NoError(t, h.Shutdown(context.Background()))
}

func TestOutcomes(t *testing.T) {
	problem := func(w http.ResponseWriter, _ *http.Request) { // HB-22
		w.Header().Set("Content-Type", controlapi.ProblemContentType)
		w.WriteHeader(http.StatusUnauthorized)
		_ = json.NewEncoder(w).Encode(controlapi.NewProblem(controlapi.ReasonHeartbeatUnauthorized, ""))
	}
	redirect := func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://127.0.0.1:1/", http.StatusTemporaryRedirect)
	}
	for _, tt := range []struct {
		name    string
		answer  http.HandlerFunc
		trusted bool
		want    outcome
	}{
		{"accepted", accept, true, accepted},
		{"wrong secret", problem, true, rejected},
		{"redirected", redirect, true, unreachable},
		{"server not trusted", accept, false, unreachable}, // HB-14
	} {
		t.Run(tt.name, func(t *testing.T) {
			url, caFile, _ := controlServer(t, tt.answer)
			cfg := createDefaultConfig().(*Config)
			cfg.Server.Endpoint = url
			if tt.trusted {
				cfg.Server.TLS.CAFile = caFile
			}
			cfg.Secret = "ikhb_example"
			h, err := newHeartbeat(cfg, extensiontest.NewNopSettings(metadata.Type))
			require.NoError(t, err)
			require.NoError(t, h.Start(context.Background(), componenttest.NewNopHost()))
			o, err := h.beat(context.Background(), h.body())
			require.Equal(t, tt.want, o)
			require.Equal(t, tt.want == accepted, err == nil)
			require.NoError(t, h.Shutdown(context.Background()))
		})
	}
}
