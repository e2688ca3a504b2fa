// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/distributions"
	"github.com/ikhnos/continuum/internal/certfile"
	"github.com/ikhnos/continuum/internal/identity"
	"github.com/ikhnos/continuum/test/testbed"
)

// The operators of a site. Senders are clusters of the one they are given.
const (
	centralID  = "op-central"
	regionalID = "op-regional"
)

// patientReceiver is what a receiver changes in the shipped configuration: pauses
// that fit leaves of a minute, and none that a slow machine could hit.
const patientReceiver = `
extensions:
  health_check: {endpoint: "${env:TESTBED_HEALTH}"}
  certnameauth: {request_timeout: 5m}
receivers:
  otlp:
    protocols:
      grpc:
        keepalive: {server_parameters: {max_connection_age: 5s, max_connection_age_grace: 5m}}
        tls: {reload_interval: 2s}
      http:
        read_timeout: 5m
        tls: {reload_interval: 2s}
`

const centralOverlay = patientReceiver + `
exporters:
  otlp_grpc/traces: &sink
    endpoint: ${env:SINK}
    timeout: 5m
    tls: {insecure: true}
    sending_queue: {batch: {flush_timeout: 100ms}}
  otlp_grpc/metrics: *sink
  otlp_grpc/logs: *sink
service:
  pipelines:
    traces: {exporters: [otlp_grpc/traces]}
    metrics: {exporters: [otlp_grpc/metrics]}
    metrics/self: {exporters: [otlp_grpc/metrics]}
    logs: {exporters: [otlp_grpc/logs]}
`

const regionalOverlay = patientReceiver + `
exporters:
  otlp_grpc/central:
    timeout: 5m
    tls: {reload_interval: 2s}
    sending_queue: {batch: {flush_timeout: 100ms}}
`

// operator is a collector that others send to.
type operator struct {
	*testbed.Collector
	id, grpc, http string // its id and addresses
}

// startOperator starts an operator's collector on the configuration that ships.
func startOperator(t testing.TB, s *testbed.Server, id string, shipped []byte, overlay string, env ...string) *operator {
	t.Helper()
	o := &operator{id: id, grpc: testbed.Address(t), http: testbed.Address(t)}
	dir := testbed.Dir(t)
	s.TokenFile(filepath.Join(dir, "secrets", "receiver-token"), id, "")
	if id == regionalID {
		s.TokenFile(filepath.Join(dir, "secrets", "export-token"), centralID, regionalID)
	}
	o.Collector = testbed.StartCollector(t, testbed.CollectorSpec{
		Name: id, Dir: dir, Config: []string{string(shipped), overlay},
		Env: append([]string{
			"CONTINUUM_SERVER=" + s.URL, "CONTINUUM_CA_PINS=[" + s.Pin + "]",
			"CONTINUUM_STATE=" + dir, "CONTINUUM_SECRETS=" + filepath.Join(dir, "secrets"),
			"CONTINUUM_OPERATOR_ID=" + id, "CONTINUUM_LISTEN=127.0.0.1",
			"CONTINUUM_GRPC_PORT=" + portOf(o.grpc), "CONTINUUM_HTTP_PORT=" + portOf(o.http),
			fmt.Sprintf("CONTINUUM_METRICS_PORT=%d", testbed.Port(t)),
		}, env...),
	})
	return o
}

// startCentral declares a central operator and starts it in front of a sink.
func startCentral(t testing.TB, s *testbed.Server, sink *testbed.Sink) *operator {
	t.Helper()
	s.Central(centralID)
	return startOperator(t, s, centralID, distributions.Central, centralOverlay, "SINK="+sink.Address)
}

// startRegional declares a regional operator and starts it in front of the central.
func startRegional(t testing.TB, s *testbed.Server, central *operator) *operator {
	t.Helper()
	s.Regional(regionalID, centralID)
	return startOperator(t, s, regionalID, distributions.Regional, regionalOverlay,
		"CONTINUUM_DESTINATION="+central.grpc, "CONTINUUM_DESTINATION_NAME="+identity.StableName(centralID))
}

// senderConfig is a collector that takes logs in clear and sends those of one
// address over gRPC and those of the other over HTTP, with one certificate.
const senderConfig = `
extensions:
  health_check: {endpoint: "${env:TESTBED_HEALTH}"}
  ikhnosrenew:
    server: {endpoint: "${env:SERVER}", ca_pins: ["${env:PIN}"]}
    certificates:
      export: {directory: "${env:STATE}/export", enrollment: {token_file: "${env:STATE}/token"}}
receivers:
  otlp/grpc: {protocols: {grpc: {endpoint: "${env:LISTEN_GRPC}"}}}
  otlp/http: {protocols: {grpc: {endpoint: "${env:LISTEN_HTTP}"}}}
exporters:
  otlp_grpc:
    endpoint: ${env:OPERATOR_GRPC}
    timeout: 5m
    tls: &tls {cert_file: "${env:STATE}/export/tls.crt", key_file: "${env:STATE}/export/tls.key", ca_file: "${env:STATE}/export/ca.crt", server_name_override: "${env:OPERATOR_NAME}", reload_interval: 2s, min_version: "1.3"}
    retry_on_failure: &retry {initial_interval: 1s, max_interval: 5s, max_elapsed_time: 0s}
  otlp_http:
    endpoint: https://${env:OPERATOR_HTTP}
    timeout: 5m
    tls: *tls
    retry_on_failure: *retry
service:
  extensions: [health_check, ikhnosrenew]
  telemetry: {metrics: {level: none}}
  pipelines:
    logs/grpc: {receivers: [otlp/grpc], exporters: [otlp_grpc]}
    logs/http: {receivers: [otlp/http], exporters: [otlp_http]}
`

// sender is a cluster's collector.
type sender struct {
	*testbed.Collector
	t          testing.TB
	server     *testbed.Server
	operatorID string
	holder     string // its whole name
	grpc, http string // where it takes logs in clear
}

// newSender declares a cluster, connects it and prepares its collector with a token.
func newSender(t testing.TB, s *testbed.Server, to *operator, id string) *sender {
	t.Helper()
	s.Sender(to.id, id)
	n := &sender{
		t: t, server: s, operatorID: to.id, holder: identity.SenderName(to.id, id),
		grpc: testbed.Address(t), http: testbed.Address(t),
	}
	n.Collector = testbed.NewCollector(t, testbed.CollectorSpec{
		Name: id, Config: []string{senderConfig},
		Env: []string{
			"SERVER=" + s.URL, "PIN=" + s.Pin, "LISTEN_GRPC=" + n.grpc, "LISTEN_HTTP=" + n.http,
			"OPERATOR_GRPC=" + to.grpc, "OPERATOR_HTTP=" + to.http, "OPERATOR_NAME=" + identity.StableName(to.id),
		},
	})
	s.TokenFile(n.tokenFile(), to.id, id)
	return n
}

func (n *sender) tokenFile() string { return filepath.Join(n.Dir, "token") }

// directory holds its certificate.
func (n *sender) directory() string { return filepath.Join(n.Dir, "export") }

// pair is what the directory holds, which has to be whole.
func (n *sender) pair() *certfile.Generation {
	n.t.Helper()
	g, err := certfile.Load(n.directory())
	require.NoError(n.t, err)
	return g
}

// entries is how many certificates it was issued.
func (n *sender) entries() int { return len(n.server.Entries(n.operatorID, n.holder)) }

// dueAt moves the renewal of the certificate on disk, which its collector reads
// when it starts.
func (n *sender) dueAt(after, by time.Time) {
	n.t.Helper()
	g := n.pair()
	g.RenewAfter, g.RenewBy = after.UTC().Truncate(time.Second), by.UTC().Truncate(time.Second)
	require.NoError(n.t, certfile.Publish(n.directory(), g))
}

// hasPending reports whether a key waits for its certificate.
func (n *sender) hasPending() bool {
	_, err := os.Stat(filepath.Join(n.directory(), certfile.FilePending))
	return err == nil
}
