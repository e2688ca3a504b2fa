// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cutoff

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/test/testbed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const operatorID = "op-cut"

const receiving = `
extensions:
  health_check: {endpoint: "${env:TESTBED_HEALTH}"}
  certnameauth:
    operator_id: op-cut
    policy:
      server: {endpoint: "${env:SERVER}", ca_pins: ["${env:PIN}"]}
      proof: {cert_file: "${env:STATE}/tls.crt", key_file: "${env:STATE}/tls.key", ca_file: "${env:STATE}/ca.crt"}
      cache_file: "${env:STATE}/policy.jws"
receivers:
  otlp:
    protocols:
      grpc:
        endpoint: ${env:GRPC}
        middlewares: [{id: certnameauth}]
        tls: &tls {cert_file: "${env:STATE}/tls.crt", key_file: "${env:STATE}/tls.key", client_ca_file: "${env:STATE}/ca.crt"}
      http: {endpoint: "${env:HTTP}", middlewares: [{id: certnameauth}], tls: *tls}
processors: {continuumidentity: {sender: {mode: stamp}}}
exporters: {otlp_grpc: {endpoint: "${env:SINK}", tls: {insecure: true}}}
service:
  extensions: [health_check, certnameauth]
  telemetry: {metrics: {level: none}}
  pipelines: {logs: {receivers: [otlp], processors: [continuumidentity], exporters: [otlp_grpc]}}
`

// site is an operator with its control server and where its data ends.
type site struct {
	*testing.T
	server     *testbed.Server
	collector  *testbed.Collector
	sink       *testbed.Sink
	grpc, http string
}

func newSite(t *testing.T) *site {
	s := &site{T: t, server: testbed.StartServer(t), sink: testbed.StartSink(t, nil), grpc: testbed.Address(t), http: testbed.Address(t)}
	s.server.Central(operatorID)
	s.collector = testbed.NewCollector(t, testbed.CollectorSpec{
		Name: "operator", Config: []string{receiving},
		Env: []string{"SERVER=" + s.server.URL, "PIN=" + s.server.Pin, "GRPC=" + s.grpc, "HTTP=" + s.http, "SINK=" + s.sink.Address},
	})
	s.server.Enroll(operatorID, "").WriteDir(t, s.collector.Dir)
	s.collector.Start()
	return s
}

// send sends one record over each protocol on new connections; "" is accepted, else
// the answers.
func (s *site) send(leaf *testbed.Leaf, id string) string {
	s.Helper()
	ctx, config := testbed.Context(s, requestLimit), leaf.ClientTLS(operatorID)
	return answers(testbed.SendGRPC(ctx, s, s.grpc, config, id+" grpc"))(testbed.SendHTTP(ctx, s.http, config, id+" http"))
}

// answers puts the answers of both protocols into words.
func answers(overGRPC error) func(int, error) string {
	return func(code int, overHTTP error) string {
		if overGRPC == nil && overHTTP == nil && code == http.StatusOK {
			return ""
		}
		reason, _, _ := strings.Cut(status.Convert(overGRPC).Message(), " ")
		if overHTTP != nil {
			return overHTTP.Error()
		}
		return fmt.Sprintf("%s %s, HTTP %d", status.Code(overGRPC), reason, code)
	}
}

// accepted waits until a sender's records are let in and arrive.
func (s *site) accepted(leaf *testbed.Leaf, id string) {
	s.Helper()
	testbed.Eventually(s, id+" to be accepted", func(context.Context) error {
		if said := s.send(leaf, id); said != "" {
			return errors.New(said)
		}
		return nil
	}, s.collector.Process)
	s.sink.Wait(id+" grpc", id+" http")
}

const (
	refused   = "PermissionDenied certificate_revoked, HTTP 403"
	notLoaded = "Unavailable policy_not_loaded, HTTP 503"
)

// pushUntilRefused sends over one connection without a pause and returns with the
// first refusal.
func (s *site) pushUntilRefused(overGRPC bool, config *tls.Config, id string) {
	s.Helper()
	ctx := testbed.Context(s, requestLimit)
	if overGRPC {
		client := plogotlp.NewGRPCClient(testbed.DialOTLP(s, s.grpc, config))
		for {
			_, err := client.Export(ctx, testbed.Logs(id))
			switch code := status.Code(err); code {
			case codes.OK, codes.Unavailable: // a full queue
			default:
				require.Equal(s, codes.PermissionDenied, code, err)
				return
			}
		}
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
	defer client.CloseIdleConnections()
	for {
		code, err := testbed.PostLogs(ctx, client, "https://"+s.http, id)
		require.NoError(s, err)
		switch code {
		case http.StatusOK, http.StatusServiceUnavailable:
		default:
			require.Equal(s, http.StatusForbidden, code)
			return
		}
	}
}

// TestKilledAfterTheFirstRefusal: the collector is killed with the first refusal of
// a sender in the sender's hands, its control server too. Started again without the
// server, it still refuses that sender and accepts the others (RV-6).
func TestKilledAfterTheFirstRefusal(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	s := newSite(t)
	s.server.Sender(operatorID, "stays")
	stays := s.server.Enroll(operatorID, "stays")
	rounds := 2 // once by each protocol
	if testbed.Soak() {
		rounds = 50
	}
	var cut []*testbed.Leaf
	for round := range rounds {
		cluster := fmt.Sprintf("cut%d", round)
		s.server.Sender(operatorID, cluster)
		leaf := s.server.Enroll(operatorID, cluster)
		s.accepted(leaf, cluster)
		_, err := s.server.API.RevokeSender(t.Context(), operatorID, cluster, operators.RevokeCompromised, "", 0)
		require.NoError(t, err)
		s.pushUntilRefused(round%2 == 0, leaf.ClientTLS(operatorID), "pushed")
		s.collector.Kill()
		s.server.Kill()
		s.collector.Start()
		cut = append(cut, leaf)
		for _, leaf := range cut {
			require.Equal(t, refused, s.send(leaf, "cut off"))
		}
		s.accepted(stays, fmt.Sprintf("stays %d", round))
		s.server.Start()
	}
	require.Zero(t, s.sink.Count("cut off grpc")+s.sink.Count("cut off http"))
	s.editCache(stays, cut[0])
}

// editCache changes one byte of the policy on disk: without its server, the
// operator accepts nobody and loses nothing.
func (s *site) editCache(stays, cut *testbed.Leaf) {
	s.Helper()
	s.collector.Kill()
	s.server.Kill()
	path := filepath.Join(s.collector.Dir, "policy.jws")
	cache, err := os.ReadFile(path)
	require.NoError(s, err)
	cache[bytes.IndexByte(cache, '.')+100] ^= 1
	require.NoError(s, os.WriteFile(path, cache, 0o600))
	s.collector.Start()
	for _, leaf := range []*testbed.Leaf{stays, cut} {
		require.Equal(s, notLoaded, s.send(leaf, "cut off"))
	}
	s.server.Start()
	s.accepted(stays, "after all")
	require.Equal(s, refused, s.send(cut, "cut off"))
}
