// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"

	"github.com/ikhnos/continuum/control/cli/demo"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// passOn is a collector that takes logs in clear and hands them to a sink.
const passOn = `
extensions: {health_check: {endpoint: "${env:TESTBED_HEALTH}"}}
receivers: {otlp: {protocols: {grpc: {endpoint: "${env:LISTEN}"}}}}
exporters:
  otlp_grpc:
    endpoint: ${env:SINK}
    tls: {insecure: true}
    retry_on_failure: {initial_interval: 100ms, max_interval: 1s}
service:
  extensions: [health_check]
  telemetry: {metrics: {level: none}}
  pipelines: {logs: {receivers: [otlp], exporters: [otlp_grpc]}}
`

// TestTestbed: what the tests with processes stand on does what it says.
func TestTestbed(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	s := StartServer(t, "--leaf-lifetime", "1h")
	s.Regional("op-a", "")
	s.Sender("op-a", "c1")
	leaf := s.Enroll("op-a", "c1")
	s.Kill()
	s.Start()
	next := s.Renew(leaf)
	entries := s.Entries("op-a", next.Name)
	require.Len(t, entries, 2)
	assert.Equal(t, leaf.Serial, entries[0].Parent)

	var seen []demo.Record
	sink := StartSink(t, func(r demo.Record) { seen = append(seen, r) })
	listen := Address(t)
	c := StartCollector(t, CollectorSpec{Name: "pass-on", Config: []string{passOn}, Env: []string{"LISTEN=" + listen, "SINK=" + sink.Address}})
	load := StartLoad(t, listen, "n", 2, 10*time.Millisecond)
	sink.Wait("n-0")
	sink.Refuse(codes.Unavailable)
	c.WaitLog("Exporting failed", "the sink refuses")
	sink.Refuse(codes.OK)
	sink.Down()
	c.WaitLog("connection refused")
	sink.Up()
	ids := load.Stop()
	sink.Wait(ids...)
	assert.Positive(t, sink.Refused())

	c.Pause()
	c.Resume()
	c.Restart()
	require.NoError(t, SendGRPC(t.Context(), t, listen, nil, "after the restart"))
	sink.Wait("after the restart")
	files, err := c.OpenFiles()
	require.NoError(t, err)
	assert.Positive(t, files)
	now, _, err := c.Memory()
	require.NoError(t, err)
	assert.Positive(t, now)
	assert.Positive(t, c.CPU())
	sink.Down() // no record is added any more
	assert.GreaterOrEqual(t, len(seen), len(ids))
	assert.Len(t, c.Logged("Starting shutdown"), 1)
}
