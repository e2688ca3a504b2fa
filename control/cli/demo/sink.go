// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip" // what exporters compress with unless told otherwise

	"github.com/ikhnos/continuum/internal/identity"
)

// keepPerSender is how many records of one sender and signal the sink remembers.
// Signals are kept apart, so that a few log lines are not pushed out by many
// data points.
const keepPerSender = 200

// Signals as the sink names them.
const (
	SignalLogs    = "logs"
	SignalMetrics = "metrics"
	SignalTraces  = "traces"
)

// Record is one log record, data point or span as it reached the sink.
type Record struct {
	At       time.Time
	Signal   string         // logs, metrics or traces
	Summary  string         // log body, metric name or span name
	Resource map[string]any // attributes of its resource
	Scope    map[string]any // attributes of its scope
	Item     map[string]any // its own attributes
}

// Attribute returns a resource attribute as text, empty when it is absent.
func (r Record) Attribute(key string) string {
	value, ok := r.Resource[key]
	if !ok {
		return ""
	}
	return text(value)
}

func text(value any) string { return fmt.Sprint(value) }

// Sender is the authenticated origin that was stamped on the record: the
// cluster's id, or the operator's id for an operator's own data.
func (r Record) Sender() string {
	if cluster := r.Attribute(identity.KeyClusterID); cluster != "" {
		return cluster
	}
	return r.Attribute(identity.KeyOperatorID)
}

// stream is what one sender sends of one signal.
type stream struct{ sender, signal string }

// Sink is an OTLP/gRPC receiver that keeps the last records of each sender.
type Sink struct {
	now      func() time.Time
	onRecord func(Record)
	server   *grpc.Server

	mu      sync.Mutex // guards what follows
	records map[stream][]Record
	counts  map[string]int
	changed chan struct{} // closed and replaced when a record arrives
}

// NewSink makes a sink. onRecord, which may be nil, is called for every record
// in the order of arrival. Options are of its gRPC server.
func NewSink(now func() time.Time, onRecord func(Record), options ...grpc.ServerOption) *Sink {
	s := &Sink{
		now:      now,
		onRecord: onRecord,
		server:   grpc.NewServer(options...),
		records:  map[stream][]Record{},
		counts:   map[string]int{},
		changed:  make(chan struct{}),
	}
	plogotlp.RegisterGRPCServer(s.server, &logsServer{sink: s})
	pmetricotlp.RegisterGRPCServer(s.server, &metricsServer{sink: s})
	ptraceotlp.RegisterGRPCServer(s.server, &tracesServer{sink: s})
	return s
}

// Serve answers on the listener until Stop.
func (s *Sink) Serve(listener net.Listener) error { return s.server.Serve(listener) }

// Stop ends Serve and every open call.
func (s *Sink) Stop() { s.server.Stop() }

// Records returns a copy of what is kept of one sender and signal, oldest first.
func (s *Sink) Records(sender, signal string) []Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Record(nil), s.records[stream{sender, signal}]...)
}

// Counts returns how many records of each sender have arrived so far.
func (s *Sink) Counts() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := make(map[string]int, len(s.counts))
	for sender, n := range s.counts {
		counts[sender] = n
	}
	return counts
}

// Wait returns the first kept record that match accepts, now or as it arrives.
func (s *Sink) Wait(ctx context.Context, match func(Record) bool) (Record, error) {
	for {
		s.mu.Lock()
		changed := s.changed
		for _, records := range s.records {
			for _, r := range records {
				if match(r) {
					s.mu.Unlock()
					return r, nil
				}
			}
		}
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return Record{}, context.Cause(ctx)
		}
	}
}

func (s *Sink) add(records []Record) {
	s.mu.Lock()
	for _, r := range records {
		from := stream{r.Sender(), r.Signal}
		kept := append(s.records[from], r)
		if len(kept) > keepPerSender {
			kept = append([]Record(nil), kept[len(kept)-keepPerSender:]...)
		}
		s.records[from] = kept
		s.counts[from.sender]++
	}
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
	if s.onRecord != nil {
		for _, r := range records {
			s.onRecord(r)
		}
	}
}

func (s *Sink) record(signal, summary string, resource pcommon.Resource, scope pcommon.InstrumentationScope, item pcommon.Map) Record {
	return Record{
		At:       s.now(),
		Signal:   signal,
		Summary:  summary,
		Resource: resource.Attributes().AsRaw(),
		Scope:    scope.Attributes().AsRaw(),
		Item:     item.AsRaw(),
	}
}

type logsServer struct {
	plogotlp.UnimplementedGRPCServer
	sink *Sink
}

func (l *logsServer) Export(_ context.Context, req plogotlp.ExportRequest) (plogotlp.ExportResponse, error) {
	var records []Record
	for _, rl := range req.Logs().ResourceLogs().All() {
		for _, sl := range rl.ScopeLogs().All() {
			for _, lr := range sl.LogRecords().All() {
				records = append(records, l.sink.record(SignalLogs, logSummary(lr), rl.Resource(), sl.Scope(), lr.Attributes()))
			}
		}
	}
	l.sink.add(records)
	return plogotlp.NewExportResponse(), nil
}

func logSummary(lr plog.LogRecord) string { return lr.Body().AsString() }

type tracesServer struct {
	ptraceotlp.UnimplementedGRPCServer
	sink *Sink
}

func (t *tracesServer) Export(_ context.Context, req ptraceotlp.ExportRequest) (ptraceotlp.ExportResponse, error) {
	var records []Record
	for _, rs := range req.Traces().ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				records = append(records, t.sink.record(SignalTraces, spanSummary(span), rs.Resource(), ss.Scope(), span.Attributes()))
			}
		}
	}
	t.sink.add(records)
	return ptraceotlp.NewExportResponse(), nil
}

func spanSummary(span ptrace.Span) string { return span.Name() }

type metricsServer struct {
	pmetricotlp.UnimplementedGRPCServer
	sink *Sink
}

func (m *metricsServer) Export(_ context.Context, req pmetricotlp.ExportRequest) (pmetricotlp.ExportResponse, error) {
	var records []Record
	for _, rm := range req.Metrics().ResourceMetrics().All() {
		for _, sm := range rm.ScopeMetrics().All() {
			for _, metric := range sm.Metrics().All() {
				for _, attributes := range pointAttributes(metric) {
					records = append(records, m.sink.record(SignalMetrics, metric.Name(), rm.Resource(), sm.Scope(), attributes))
				}
			}
		}
	}
	m.sink.add(records)
	return pmetricotlp.NewExportResponse(), nil
}

func pointAttributes(metric pmetric.Metric) []pcommon.Map {
	var all []pcommon.Map
	switch metric.Type() {
	case pmetric.MetricTypeGauge:
		for _, p := range metric.Gauge().DataPoints().All() {
			all = append(all, p.Attributes())
		}
	case pmetric.MetricTypeSum:
		for _, p := range metric.Sum().DataPoints().All() {
			all = append(all, p.Attributes())
		}
	case pmetric.MetricTypeHistogram:
		for _, p := range metric.Histogram().DataPoints().All() {
			all = append(all, p.Attributes())
		}
	case pmetric.MetricTypeExponentialHistogram:
		for _, p := range metric.ExponentialHistogram().DataPoints().All() {
			all = append(all, p.Attributes())
		}
	case pmetric.MetricTypeSummary:
		for _, p := range metric.Summary().DataPoints().All() {
			all = append(all, p.Attributes())
		}
	case pmetric.MetricTypeEmpty:
	}
	return all
}
