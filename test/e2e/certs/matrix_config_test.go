// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/cli/demo"
	"github.com/ikhnos/continuum/internal/identity"
	"github.com/ikhnos/continuum/test/testbed"
)

const (
	matrixOperator = "op-tm"
	protocolGRPC   = "grpc"
	protocolHTTP   = "http"
	heldID         = "held"
)

var matrixProtocols = []string{protocolGRPC, protocolHTTP}

// matrixRow is one exporter for each protocol, with a client certificate and a name
// of its own.
type matrixRow struct {
	name     string
	receiver string // of matrixReceivers; "" is main
	dial     string // server name; "" is the stable one
}

var matrixRows = []matrixRow{
	{name: "tm2"}, {name: "tm3"}, {name: "tm4"}, {name: "tm5"}, {name: "tm6", dial: "receiver.example.com"}, {name: "tm7"}, {name: "tm8"},
	{name: "tm10-old", receiver: "swap"}, {name: "tm10-new", receiver: "swap"}, {name: "tm11", receiver: "moved"},
}

// matrixReceivers are the receivers of one process and the directories of their
// certificates. All but keep end connections after a second, so that a change shows.
var matrixReceivers = map[string]string{"main": "receiver", "keep": "receiver", "swap": "swap", "moved": "moved"}

// matrix is one receiver process, one sender process, and the CAs of their
// certificates.
type matrix struct {
	t           testing.TB
	ca, otherCA *matrixCA // otherCA is of the same operator
	addresses   map[string]string
	metrics     string // the receiver's own, host:port
	listen      string // where the sender takes records in clear
	arrived     *arrivals
	sink        *testbed.Sink

	receiver, sender *testbed.Collector
}

func newMatrix(t testing.TB) *matrix {
	t.Helper()
	m := &matrix{
		t: t, ca: newMatrixCA(t, matrixOperator), otherCA: newMatrixCA(t, matrixOperator),
		addresses: map[string]string{}, metrics: testbed.Address(t), listen: testbed.Address(t),
		arrived: &arrivals{counts: map[string]map[string]int{}},
	}
	m.sink = testbed.StartSink(t, m.arrived.add)
	for name := range matrixReceivers {
		for _, protocol := range matrixProtocols {
			m.addresses[name+protocol] = testbed.Address(t)
		}
	}
	return m
}

func (m *matrix) address(receiver, protocol string) string { return m.addresses[receiver+protocol] }

func holderID(row, protocol string) string { return row + "-" + protocol }

func exporterID(row, protocol string) string {
	return fmt.Sprintf(`"otelcol.component.id": "otlp_%s/%s"`, protocol, row)
}

func (m *matrix) receiverDir(name string) string { return filepath.Join(m.receiver.Dir, name) }

func (m *matrix) clientDir(row, protocol string) string {
	return filepath.Join(m.sender.Dir, holderID(row, protocol))
}

func (m *matrix) startReceiver() {
	var config strings.Builder
	config.WriteString(`
extensions:
  health_check: {endpoint: "${env:TESTBED_HEALTH}"}
  certnameauth:
    operator_id: ` + matrixOperator + `
    senders:
`)
	ids := []string{heldID}
	for _, row := range matrixRows {
		ids = append(ids, holderID(row.name, protocolGRPC), holderID(row.name, protocolHTTP))
	}
	for _, id := range ids {
		fmt.Fprintf(&config, "      - {name: %s, kind: cluster, org_id: default, cluster_id: %s}\n", identity.SenderName(matrixOperator, id), id)
	}
	config.WriteString("receivers:\n")
	for name, dir := range matrixReceivers {
		age := "1s"
		if name == "keep" {
			age = "1h"
		}
		tls := fmt.Sprintf(`{cert_file: "${env:STATE}/%[1]s/tls.crt", key_file: "${env:STATE}/%[1]s/tls.key", client_ca_file: "${env:STATE}/%[1]s/ca.crt", client_ca_file_reload: true, reload_interval: 1s, min_version: "1.3"}`, dir)
		fmt.Fprintf(&config, `  otlp/%s:
    protocols:
      grpc: {endpoint: "%s", middlewares: [{id: certnameauth}], tls: %s, keepalive: {server_parameters: {max_connection_age: %s, max_connection_age_grace: 1s}}}
      http: {endpoint: "%s", middlewares: [{id: certnameauth}], tls: %s}
`, name, m.address(name, protocolGRPC), tls, age, m.address(name, protocolHTTP), tls)
	}
	fmt.Fprintf(&config, `
processors: {continuumidentity/sender: {sender: {mode: stamp}}}
exporters: {otlp_grpc: {endpoint: "%s", tls: {insecure: true}}}
service:
  extensions: [health_check, certnameauth]
  telemetry: {metrics: {readers: [{pull: {exporter: {prometheus: {host: 127.0.0.1, port: %s, without_type_suffix: true, without_units: true}}}}]}}
  pipelines:
    logs: {receivers: [otlp/main, otlp/keep, otlp/swap, otlp/moved], processors: [continuumidentity/sender], exporters: [otlp_grpc]}
`, m.sink.Address, portOf(m.metrics))
	m.receiver = testbed.NewCollector(m.t, testbed.CollectorSpec{Name: "receiver", Config: []string{config.String()}})
	for _, dir := range matrixReceivers {
		m.ca.receiver(m.t).write(m.receiverDir(dir))
	}
	m.receiver.Start()
}

func (m *matrix) startSender(program string) {
	var exporters, names strings.Builder
	for _, row := range matrixRows {
		for _, protocol := range matrixProtocols {
			exporters.WriteString(m.exporter(row, protocol))
			fmt.Fprintf(&names, "otlp_%s/%s, ", protocol, row.name)
		}
	}
	config := fmt.Sprintf(`
receivers: {otlp: {protocols: {grpc: {endpoint: "%s"}}}}
exporters:
%s
service:
  telemetry: {metrics: {level: none}, logs: {sampling: {enabled: false}}} # or of many failures only some are shown
  pipelines: {logs: {receivers: [otlp], exporters: [%s]}}
`, m.listen, &exporters, strings.TrimSuffix(names.String(), ", "))
	m.sender = testbed.NewCollector(m.t, testbed.CollectorSpec{Name: "sender", Program: program, Config: []string{config}})
	m.writeClients()
	m.sender.Start()
}

// exporter is one row over one protocol, as a stock collector is configured.
func (m *matrix) exporter(row matrixRow, protocol string) string {
	endpoint := m.address(orElse(row.receiver, "main"), protocol)
	more := ""
	if protocol == protocolHTTP {
		endpoint, more = "https://"+endpoint, "\n    disable_keep_alives: true"
	}
	pair := fmt.Sprintf(`cert_file: "${env:STATE}/%[1]s/tls.crt", key_file: "${env:STATE}/%[1]s/tls.key", `, holderID(row.name, protocol))
	if row.name == "tm4" {
		pair = ""
	}
	return fmt.Sprintf(`  otlp_%s/%s:
    endpoint: %s%s
    tls: {%sca_file: "${env:STATE}/%s/ca.crt", server_name_override: %s, reload_interval: 1s, min_version: "1.3"}
    retry_on_failure: {initial_interval: 200ms, max_interval: 1s, max_elapsed_time: 0s}
`, protocol, row.name, endpoint, more, pair, holderID(row.name, protocol), orElse(row.dial, identity.StableName(matrixOperator)))
}

func orElse(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}

// writeClients makes each row's certificate.
func (m *matrix) writeClients() {
	foreign := newMatrixCA(m.t, "op-other")
	now := time.Now()
	for _, row := range matrixRows {
		for _, protocol := range matrixProtocols {
			ca, from, to := m.ca, now.Add(-time.Hour), now.Add(time.Hour)
			trust := m.ca.pem()
			switch row.name {
			case "tm3":
				ca = foreign
			case "tm5", "tm8":
				from, to = now.Add(-30*24*time.Hour), now.Add(-time.Minute)
			case "tm7":
				trust = foreign.pem()
			case "tm10-new":
				ca = m.otherCA
			}
			leaf := ca.sender(m.t, holderID(row.name, protocol), from, to)
			leaf.trust = trust
			leaf.write(m.clientDir(row.name, protocol))
		}
	}
}

// probe is the serial that a new connection meets.
func (m *matrix) probe() string {
	m.t.Helper()
	seen := &handshakes{}
	leaf := m.ca.sender(m.t, heldID, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	conn, err := tls.Dial("tcp", m.address("keep", protocolHTTP), leaf.clientTLS(m.ca, seen))
	require.NoError(m.t, err)
	require.NoError(m.t, conn.Close())
	return seen.serials()[0]
}

// leafEnds is nil when the newest leaf that the receiver saw of a sender ends then.
func (m *matrix) leafEnds(ctx context.Context, holderID string, end time.Time) error {
	text, err := get(ctx, "http://"+m.metrics+"/metrics")
	if err != nil {
		return err
	}
	name := regexp.QuoteMeta(identity.SenderName(matrixOperator, holderID))
	line := regexp.MustCompile(`certnameauth_sender_leaf_expiry\{[^}]*sender="` + name + `"[^}]*\} (\S+)`).FindStringSubmatch(text)
	if line == nil {
		return fmt.Errorf("no leaf of %s", holderID)
	}
	if got, err := strconv.ParseFloat(line[1], 64); err != nil || int64(got) != end.Unix() {
		return fmt.Errorf("the leaf of %s ends at %s", holderID, line[1])
	}
	return nil
}

func get(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

func portOf(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }

// arrivals counts records by the cluster that was stamped on them and by id.
type arrivals struct {
	mu     sync.Mutex
	counts map[string]map[string]int
}

func (a *arrivals) add(r demo.Record) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.counts[r.Sender()] == nil {
		a.counts[r.Sender()] = map[string]int{}
	}
	a.counts[r.Sender()][r.Summary]++
}

func (a *arrivals) count(sender, id string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.counts[sender][id]
}

func (a *arrivals) senders() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []string
	for sender := range a.counts {
		all = append(all, sender)
	}
	slices.Sort(all)
	return all
}
