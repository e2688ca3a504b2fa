// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc"

	"github.com/ikhnos/continuum/internal/identity"
)

// perRequest is how many records of each signal a round sends.
const perRequest = 10

// signals are what a round of a sender consists of.
var signals = []string{"logs", "metrics", "traces"}

// forge makes a map claim another origin, in several spellings.
func forge(m pcommon.Map) {
	m.PutStr(identity.KeyOrgID, "forged")
	m.PutStr(identity.KeyClusterID, "forged")
	m.PutStr(identity.KeyOperatorID, "forged")
	m.PutStr("Continuum_Cluster_Id", "forged")
	m.PutStr("continuum..operator..name", "forged")
	m.PutInt("vm_account_id", 7)
}

// sender is an application of a cluster that forges wherever it can.
type sender struct {
	cluster string
	logs    plogotlp.GRPCClient
	metrics pmetricotlp.GRPCClient
	traces  ptraceotlp.GRPCClient
	rounds  atomic.Int64 // that the cluster's collector has taken
}

func newSender(conn *grpc.ClientConn, cluster string) *sender {
	return &sender{
		cluster: cluster,
		logs:    plogotlp.NewGRPCClient(conn), metrics: pmetricotlp.NewGRPCClient(conn), traces: ptraceotlp.NewGRPCClient(conn),
	}
}

func (s *sender) id(signal string, round int64, n int) string {
	return fmt.Sprintf("%s/%s/%d/%d", s.cluster, signal, round, n)
}

// run sends round after round until stop is closed, each until it is taken.
func (s *sender) run(ctx context.Context, stop <-chan struct{}) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := s.round(ctx); err != nil {
			return err
		}
		select {
		case <-stop:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

func (s *sender) round(ctx context.Context) error {
	n := s.rounds.Load()
	if _, err := s.logs.Export(ctx, plogotlp.NewExportRequestFromLogs(s.someLogs(n))); err != nil {
		return fmt.Errorf("sending logs of %s: %w", s.cluster, err)
	}
	if _, err := s.metrics.Export(ctx, pmetricotlp.NewExportRequestFromMetrics(s.someMetrics(n))); err != nil {
		return fmt.Errorf("sending metrics of %s: %w", s.cluster, err)
	}
	if _, err := s.traces.Export(ctx, ptraceotlp.NewExportRequestFromTraces(s.someTraces(n))); err != nil {
		return fmt.Errorf("sending traces of %s: %w", s.cluster, err)
	}
	s.rounds.Add(1)
	return nil
}

func (s *sender) describe(resource, scope pcommon.Map) {
	resource.PutStr("service.name", "app")
	forge(resource)
	forge(scope)
}

func (s *sender) someLogs(round int64) plog.Logs {
	ld := plog.NewLogs()
	rl := ld.ResourceLogs().AppendEmpty()
	sl := rl.ScopeLogs().AppendEmpty()
	s.describe(rl.Resource().Attributes(), sl.Scope().Attributes())
	for i := range perRequest {
		record := sl.LogRecords().AppendEmpty()
		record.SetTimestamp(pcommon.NewTimestampFromTime(time.Now()))
		body := record.Body().SetEmptyMap()
		body.PutStr("message", "something happened")
		forge(body)
		record.Attributes().PutStr(keyID, s.id("logs", round, i))
		forge(record.Attributes())
	}
	return ld
}

func (s *sender) someMetrics(round int64) pmetric.Metrics {
	md := pmetric.NewMetrics()
	rm := md.ResourceMetrics().AppendEmpty()
	sm := rm.ScopeMetrics().AppendEmpty()
	s.describe(rm.Resource().Attributes(), sm.Scope().Attributes())
	metric := sm.Metrics().AppendEmpty()
	metric.SetName("e2e.queue.length")
	forge(metric.Metadata())
	points := metric.SetEmptyGauge().DataPoints()
	for i := range perRequest {
		point := points.AppendEmpty()
		point.SetTimestamp(pcommon.NewTimestampFromTime(time.Now()))
		point.SetIntValue(int64(i))
		point.Attributes().PutStr(keyID, s.id("metrics", round, i))
		forge(point.Attributes())
		exemplar := point.Exemplars().AppendEmpty()
		exemplar.SetTimestamp(point.Timestamp())
		exemplar.SetIntValue(1)
		forge(exemplar.FilteredAttributes())
	}
	return md
}

func (s *sender) someTraces(round int64) ptrace.Traces {
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	ss := rs.ScopeSpans().AppendEmpty()
	s.describe(rs.Resource().Attributes(), ss.Scope().Attributes())
	for i := range perRequest {
		span := ss.Spans().AppendEmpty()
		span.SetName("work")
		span.Attributes().PutStr(keyID, s.id("traces", round, i))
		forge(span.Attributes())
		forge(span.Events().AppendEmpty().Attributes())
		forge(span.Links().AppendEmpty().Attributes())
	}
	return td
}
