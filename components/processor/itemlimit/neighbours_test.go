// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package itemlimit

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.opentelemetry.io/collector/exporter/otlpexporter"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"google.golang.org/grpc"
)

// store is a next hop that counts log records by the cluster on their resource.
type store struct {
	plogotlp.UnimplementedGRPCServer
	mu      sync.Mutex
	records map[string]int // guarded by mu
}

func (s *store) Export(_ context.Context, request plogotlp.ExportRequest) (plogotlp.ExportResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, rl := range request.Logs().ResourceLogs().All() {
		cluster, _ := rl.Resource().Attributes().Get("continuum.cluster.id")
		for _, sl := range rl.ScopeLogs().All() {
			s.records[cluster.Str()] += sl.LogRecords().Len()
		}
	}
	return plogotlp.NewExportResponse(), nil
}

// arrive sends one request through a real OTLP exporter with the queue and batch
// of a central operator, and returns the records of each cluster that a store got.
func arrive(t *testing.T, ld plog.Logs, before func(exporter.Logs) consumer.Logs) map[string]int {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	got := &store{records: map[string]int{}}
	server := grpc.NewServer()
	plogotlp.RegisterGRPCServer(server, got)
	var served sync.WaitGroup
	served.Go(func() { assert.NoError(t, server.Serve(listener)) })

	factory := otlpexporter.NewFactory()
	cfg := factory.CreateDefaultConfig()
	require.NoError(t, confmap.NewFromStringMap(map[string]any{
		"endpoint": listener.Addr().String(), "tls": map[string]any{"insecure": true},
		"sending_queue": map[string]any{
			"sizer": "bytes", "queue_size": 201326592, "block_on_overflow": true,
			"batch": map[string]any{"sizer": "bytes", "min_size": 524288, "max_size": 3145728, "flush_timeout": "1s"},
		},
	}).Unmarshal(cfg))
	exp, err := factory.CreateLogs(t.Context(), exportertest.NewNopSettings(factory.Type()), cfg)
	require.NoError(t, err)
	require.NoError(t, exp.Start(t.Context(), componenttest.NewNopHost()))
	require.NoError(t, before(exp).ConsumeLogs(from("op-central-export-op-abc"), ld))
	require.NoError(t, exp.Shutdown(context.Background()), "sends what is in the queue")
	server.GracefulStop()
	served.Wait()
	return got.records
}

// twoSenders is what a regional operator relays in one request: 50 small records
// and one of 4 MiB of one cluster, then 500 small ones of another.
func twoSenders() plog.Logs {
	ld := plog.NewLogs()
	of := func(cluster string, records int) plog.LogRecordSlice {
		rl := ld.ResourceLogs().AppendEmpty()
		rl.Resource().Attributes().PutStr("continuum.cluster.id", cluster)
		slice := rl.ScopeLogs().AppendEmpty().LogRecords()
		for range records {
			slice.AppendEmpty().Body().SetStr("small")
		}
		return slice
	}
	of("loud", 50).AppendEmpty().Body().SetStr(strings.Repeat("x", 4<<20))
	of("quiet", 500)
	return ld
}

func TestNeighbours(t *testing.T) {
	t.Run("without itemlimit", func(t *testing.T) {
		got := arrive(t, twoSenders(), func(exp exporter.Logs) consumer.Logs { return exp })
		// The exporter reports success and drops the large record and all 500
		// records of another sender behind it. When this fails because they
		// arrive, this processor is no longer needed.
		assert.Equal(t, map[string]int{"loud": 50}, got)
	})
	t.Run("with itemlimit", func(t *testing.T) {
		got := arrive(t, twoSenders(), func(exp exporter.Logs) consumer.Logs {
			p, err := NewFactory().CreateLogs(t.Context(), nop(), createDefaultConfig(), exp)
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, p.Shutdown(context.Background())) })
			return p
		})
		assert.Equal(t, map[string]int{"loud": 50, "quiet": 500}, got)
	})
}
