// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certnameauth

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"

	"github.com/ikhnos/continuum/internal/testpki"
)

func manySpans(n int) ptraceotlp.ExportRequest {
	td := ptrace.NewTraces()
	spans := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans()
	for i := range n {
		span := spans.AppendEmpty()
		span.SetName("operation")
		for k := range 10 {
			span.Attributes().PutStr(fmt.Sprintf("key.%d", k), fmt.Sprintf("value %d of %d", k, i))
		}
	}
	return ptraceotlp.NewExportRequestFromTraces(td)
}

func without(cfg *otlpreceiver.Config) {
	cfg.Protocols.GRPC.Get().Middlewares = nil
	cfg.Protocols.HTTP.Get().ServerConfig.Middlewares = nil
}

// BenchmarkReceiver compares the same receiver with and without the extension,
// one request each in turn, so that both see the same machine. Bar: 97 %.
func BenchmarkReceiver(b *testing.B) {
	ca := testpki.NewCA(b, operatorID)
	req := manySpans(1000)
	body, err := req.MarshalProto()
	require.NoError(b, err)
	grpcSend := func(r *rig) func() {
		c := r.grpcClient(sender(b, ca, "c1"))
		return func() {
			_, err := c.Export(context.Background(), req)
			require.NoError(b, err)
		}
	}
	httpSend := func(r *rig) func() {
		c := r.httpClient(sender(b, ca, "c1"), false)
		return func() {
			resp, err := c.Post("https://"+r.httpAddr+"/v1/traces", contentProtobuf, bytes.NewReader(body))
			require.NoError(b, err)
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			require.Equal(b, http.StatusOK, resp.StatusCode)
		}
	}
	for name, send := range map[string]func(*rig) func(){"grpc": grpcSend, "http": httpSend} {
		b.Run(name, func(b *testing.B) {
			plain := newRig(b, ca, staticConfig("c1"), options{receiver: without})
			guarded := newRig(b, ca, staticConfig("c1"), options{})
			sends := []func(){send(plain), send(guarded)}
			var took [2][]time.Duration
			round := 0
			for b.Loop() {
				round++ // neither is always the first
				for k := range sends {
					i := (k + round) % 2
					began := time.Now()
					sends[i]()
					took[i] = append(took[i], time.Since(began))
				}
				plain.sink.Reset()
				guarded.sink.Reset()
			}
			b.ReportMetric(100*median(took[0]).Seconds()/median(took[1]).Seconds(), "%of-without")
		})
	}
}

func median(list []time.Duration) time.Duration {
	slices.Sort(list)
	return list[len(list)/2]
}

// BenchmarkRefusedCalls: calls with a deadline of years that are refused leave
// nothing behind. Bar: 10 MB for 200,000.
func BenchmarkRefusedCalls(b *testing.B) {
	grown := refuseMany(b, 200_000)
	for b.Loop() {
	}
	b.ReportMetric(float64(grown)/1e6, "MB/200000-calls")
}

// The same with fewer calls in every test run.
func TestRefusedCallsLeaveNothing(t *testing.T) {
	require.Less(t, refuseMany(t, 5_000), int64(10<<20))
}

// refuseMany returns by how much the heap grew over n refused calls.
func refuseMany(t testing.TB, n int) int64 {
	ca := testpki.NewCA(t, operatorID)
	r := newRig(t, ca, staticConfig("c1"), options{})
	c := r.grpcClient(sender(t, ca, "c9"))
	call := func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*365*24*time.Hour)
		_, err := c.Export(ctx, request())
		cancel()
		require.Error(t, err)
	}
	for range 500 {
		call()
	}
	before := heap()
	for range n {
		call()
	}
	return heap() - before
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
