// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package certnameauth

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"syscall"
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

// leastPairs is how many requests each receiver gets however short the benchmark is.
const leastPairs = 500

// BenchmarkReceiver compares the same receiver with and without the extension,
// one request of 1,000 spans each in turn, so that both see the same machine. The
// rates are those of the median; %of-without-by-cpu compares the processor time of
// sender and receiver, which other programs do not distort. Bar: 97 %.
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
			var cpu [2]time.Duration
			round := 0
			pair := func() {
				round++ // neither is always the first
				for k := range sends {
					i := (k + round) % 2
					began, used := time.Now(), processorTime()
					sends[i]()
					took[i] = append(took[i], time.Since(began))
					cpu[i] += processorTime() - used
				}
				plain.sink.Reset()
				guarded.sink.Reset()
			}
			for b.Loop() {
				pair()
			}
			for round < leastPairs {
				pair()
			}
			rate := func(i int) float64 { return 1 / median(took[i]).Seconds() }
			b.ReportMetric(rate(0), "requests/s-without")
			b.ReportMetric(rate(1), "requests/s-with")
			b.ReportMetric(100*rate(1)/rate(0), "%of-without")
			b.ReportMetric(100*cpu[0].Seconds()/cpu[1].Seconds(), "%of-without-by-cpu")
		})
	}
}

// processorTime is what this process has used.
func processorTime() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage) // fails only for another who
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
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

// The same with fewer calls in every test run. What a refusing tap leaves behind is
// some kilobytes a call.
func TestRefusedCallsLeaveNothing(t *testing.T) {
	require.Less(t, refuseMany(t, 1_000), int64(2<<20))
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
	for range 200 {
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
