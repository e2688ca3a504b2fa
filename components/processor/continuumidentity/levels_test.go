// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package continuumidentity

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// visit is called with every map that carries attributes.
type visit func(at level, m pcommon.Map)

func visitTraces(td ptrace.Traces, f visit) {
	for _, rs := range td.ResourceSpans().All() {
		f(levelResource, rs.Resource().Attributes())
		for _, ss := range rs.ScopeSpans().All() {
			f(levelScope, ss.Scope().Attributes())
			for _, span := range ss.Spans().All() {
				f(levelSpan, span.Attributes())
				for _, event := range span.Events().All() {
					f(levelSpanEvent, event.Attributes())
				}
				for _, link := range span.Links().All() {
					f(levelSpanLink, link.Attributes())
				}
			}
		}
	}
}

func visitLogs(ld plog.Logs, f visit) {
	for _, rl := range ld.ResourceLogs().All() {
		f(levelResource, rl.Resource().Attributes())
		for _, sl := range rl.ScopeLogs().All() {
			f(levelScope, sl.Scope().Attributes())
			for _, record := range sl.LogRecords().All() {
				f(levelLogRecord, record.Attributes())
				if record.Body().Type() == pcommon.ValueTypeMap {
					f(levelLogBody, record.Body().Map())
				}
			}
		}
	}
}

func visitMetrics(md pmetric.Metrics, f visit) {
	exemplars := func(slice pmetric.ExemplarSlice) {
		for _, exemplar := range slice.All() {
			f(levelExemplar, exemplar.FilteredAttributes())
		}
	}
	numbers := func(points pmetric.NumberDataPointSlice) {
		for _, point := range points.All() {
			f(levelDatapoint, point.Attributes())
			exemplars(point.Exemplars())
		}
	}
	for _, rm := range md.ResourceMetrics().All() {
		f(levelResource, rm.Resource().Attributes())
		for _, sm := range rm.ScopeMetrics().All() {
			f(levelScope, sm.Scope().Attributes())
			for _, metric := range sm.Metrics().All() {
				f(levelMetric, metric.Metadata())
				switch metric.Type() {
				case pmetric.MetricTypeGauge:
					numbers(metric.Gauge().DataPoints())
				case pmetric.MetricTypeSum:
					numbers(metric.Sum().DataPoints())
				case pmetric.MetricTypeHistogram:
					for _, point := range metric.Histogram().DataPoints().All() {
						f(levelDatapoint, point.Attributes())
						exemplars(point.Exemplars())
					}
				case pmetric.MetricTypeExponentialHistogram:
					for _, point := range metric.ExponentialHistogram().DataPoints().All() {
						f(levelDatapoint, point.Attributes())
						exemplars(point.Exemplars())
					}
				case pmetric.MetricTypeSummary:
					for _, point := range metric.Summary().DataPoints().All() {
						f(levelDatapoint, point.Attributes())
					}
				}
			}
		}
	}
}

// fullTraces has one map at every level of the signal.
func fullTraces() ptrace.Traces {
	td := ptrace.NewTraces()
	span := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	span.Events().AppendEmpty()
	span.Links().AppendEmpty()
	return td
}

// fullLogs has one map at every level of the signal.
func fullLogs() plog.Logs {
	ld := plog.NewLogs()
	ld.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords().AppendEmpty().Body().SetEmptyMap()
	return ld
}

// fullMetrics has one map at every level of the signal, for each kind of metric.
func fullMetrics() pmetric.Metrics {
	md := pmetric.NewMetrics()
	metrics := md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics()
	metrics.AppendEmpty().SetEmptyGauge().DataPoints().AppendEmpty().Exemplars().AppendEmpty()
	metrics.AppendEmpty().SetEmptySum().DataPoints().AppendEmpty().Exemplars().AppendEmpty()
	metrics.AppendEmpty().SetEmptyHistogram().DataPoints().AppendEmpty().Exemplars().AppendEmpty()
	metrics.AppendEmpty().SetEmptyExponentialHistogram().DataPoints().AppendEmpty().Exemplars().AppendEmpty()
	metrics.AppendEmpty().SetEmptySummary().DataPoints().AppendEmpty()
	return md
}

// consume sends one request of each signal but profiles through an instance; each
// map was filled with attrs before, and f sees it afterwards.
func consume(t *testing.T, cfg *Config, ctx context.Context, attrs []kv, f visit) {
	t.Helper()
	plant := func(_ level, m pcommon.Map) { fill(t, m, attrs...) }
	td, ld, md := fullTraces(), fullLogs(), fullMetrics()
	visitTraces(td, plant)
	visitLogs(ld, plant)
	visitMetrics(md, plant)
	traces, logs, metrics := new(consumertest.TracesSink), new(consumertest.LogsSink), new(consumertest.MetricsSink)
	require.NoError(t, newTraces(t, cfg, traces).ConsumeTraces(ctx, td))
	require.NoError(t, newLogs(t, cfg, logs).ConsumeLogs(ctx, ld))
	require.NoError(t, newMetrics(t, cfg, metrics).ConsumeMetrics(ctx, md))
	visitTraces(traces.AllTraces()[0], f)
	visitLogs(logs.AllLogs()[0], f)
	visitMetrics(metrics.AllMetrics()[0], f)
}

// case-29: not only spans, but events, links and every other level.
func TestEveryLevel(t *testing.T) { // ID-9, A-18
	seen := map[level]int{}
	consume(t, senderConfig(ModeStamp), as(clusterSender()), []kv{
		{"b", "1"}, {"continuum.org.id", "org1"}, {"continuum.org.id", "org1"}, {"CONTINUUM__x", 1}, {"a", "2"},
		{"region", "kept"}, {"vm_project_id", "7"}, {"b", "3"}, {"n", map[string]any{"continuum": "data"}},
		{"_", map[string]any{"continuum": "data"}},
	}, func(at level, m pcommon.Map) {
		seen[at]++
		if at != levelResource {
			assert.Equal(t, []kv{{"b", "1"}, {"a", "2"}, {"region", "kept"}, {"b", "3"}, {"n", map[string]any{"continuum": "data"}}, {"_", map[string]any{}}}, list(m), levelNames[at])
		}
	})
	assert.Equal(t, map[level]int{levelResource: 3, levelScope: 3, levelSpan: 1, levelSpanEvent: 1, levelSpanLink: 1,
		levelLogRecord: 1, levelLogBody: 1, levelMetric: 5, levelDatapoint: 5, levelExemplar: 4}, seen)
}

func TestMoreReservedKeys(t *testing.T) {
	cfg := senderConfig(ModeStamp)
	cfg.ReservedKeys = []string{"Tenant.ID"}
	consume(t, cfg, as(clusterSender()), []kv{{"tenant_id", 1}, {"TENANT-ID", 1}, {"tenant", 2}, {"vm_account_id", 3}},
		func(at level, m pcommon.Map) {
			assert.Equal(t, kv{"tenant", int64(2)}, list(m)[0], levelNames[at])
			assert.True(t, at == levelResource || m.Len() == 1, levelNames[at])
		})
}

func TestLabelsBelow(t *testing.T) {
	sent := []kv{{"a", 1}, {"region", "r"}, {"Env", 2}, {"z", 3}, {"exported.region", "mine"}, {"region", "s"}}
	both := senderConfig(ModeStamp)
	both.Operator = operatorConfig().Operator
	for _, tc := range []struct {
		name string
		cfg  *Config
		how  LabelsBelow
		want []kv
	}{
		{"sender keep", senderConfig(ModeStamp), LabelsKeep, []kv{{"a", int64(1)}, {"region", "r"}, {"Env", int64(2)}, {"z", int64(3)}, {"exported.region", "mine"}, {"region", "s"}}},
		{"sender remove", senderConfig(ModeStamp), LabelsRemove, []kv{{"a", int64(1)}, {"z", int64(3)}, {"exported.region", "mine"}}},
		{"sender rename", senderConfig(ModeEnforce), LabelsRename, []kv{{"a", int64(1)}, {"z", int64(3)}, {"exported.region", "mine"},
			{"exported.exported.region", "r"}, {"exported.Env", int64(2)}, {"exported.exported.exported.region", "s"}}},
		{"operator keep", operatorConfig(), LabelsKeep, []kv{{"a", int64(1)}, {"region", "r"}, {"Env", int64(2)}, {"z", int64(3)}, {"exported.region", "mine"}, {"region", "s"}}},
		{"operator remove", operatorConfig(), LabelsRemove, []kv{{"a", int64(1)}, {"Env", int64(2)}, {"z", int64(3)}, {"exported.region", "mine"}}},
		{"both remove", both, LabelsRemove, []kv{{"a", int64(1)}, {"z", int64(3)}, {"exported.region", "mine"}}},
		{"off remove", senderConfig(ModeOff), LabelsRemove, []kv{{"a", int64(1)}, {"region", "r"}, {"Env", int64(2)}, {"z", int64(3)}, {"exported.region", "mine"}, {"region", "s"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.cfg.LabelsBelow = tc.how
			consume(t, tc.cfg, as(clusterSender()), sent, func(at level, m pcommon.Map) {
				if at != levelResource {
					assert.Equal(t, tc.want, list(m), levelNames[at])
				}
			})
		})
	}
}

// Nothing is invented and nothing is lost where there is little.
func TestEmptyRequests(t *testing.T) {
	for _, cfg := range []*Config{senderConfig(ModeStamp), senderConfig(ModeEnforce), operatorConfig()} {
		t.Run("no resources", func(t *testing.T) {
			require.NoError(t, newTraces(t, cfg, consumertest.NewNop()).ConsumeTraces(as(clusterSender()), ptrace.NewTraces()))
			require.NoError(t, newLogs(t, cfg, consumertest.NewNop()).ConsumeLogs(as(clusterSender()), plog.NewLogs()))
			require.NoError(t, newMetrics(t, cfg, consumertest.NewNop()).ConsumeMetrics(as(clusterSender()), pmetric.NewMetrics()))
		})
		t.Run("empty at each level", func(t *testing.T) {
			md := pmetric.NewMetrics()
			md.ResourceMetrics().AppendEmpty()
			md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty()
			metrics := md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics()
			metrics.AppendEmpty()
			metrics.AppendEmpty().SetEmptyGauge()
			metrics.AppendEmpty().SetEmptyHistogram().DataPoints().AppendEmpty()
			sink := new(consumertest.MetricsSink)
			require.NoError(t, newMetrics(t, cfg, sink).ConsumeMetrics(as(clusterSender()), md))
			got := sink.AllMetrics()[0]
			assert.Equal(t, 3, got.ResourceMetrics().Len())
			assert.Equal(t, 3, got.MetricCount())
			assert.Equal(t, 1, got.DataPointCount())
			for _, rm := range got.ResourceMetrics().All() {
				assert.Positive(t, rm.Resource().Attributes().Len(), "an empty resource is stamped too")
			}
		})
	}
	t.Run("only an empty resource in conflict", func(t *testing.T) {
		td := ptrace.NewTraces()
		td.ResourceSpans().AppendEmpty().Resource().Attributes().PutStr("continuum.org.id", "x")
		assert.Error(t, newTraces(t, senderConfig(ModeEnforce), consumertest.NewNop()).ConsumeTraces(as(clusterSender()), td))
	})
}

// The shape of a body that is no map stays.
func TestOtherBodies(t *testing.T) {
	ld := plog.NewLogs()
	records := ld.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords()
	records.AppendEmpty().Body().SetStr(`{"continuum.org.id":"x"}`)
	records.AppendEmpty().Body().SetEmptySlice().AppendEmpty().SetEmptyMap().PutStr("continuum.org.id", "x")
	records.AppendEmpty()
	before := plog.NewLogs()
	ld.CopyTo(before)
	sink := new(consumertest.LogsSink)
	require.NoError(t, newLogs(t, senderConfig(ModeStamp), sink).ConsumeLogs(as(clusterSender()), ld))
	for i, record := range sink.AllLogs()[0].ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().All() {
		assert.True(t, record.Body().Equal(before.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(i).Body()))
	}
}

func TestMutatesData(t *testing.T) { // case-32
	for _, c := range []interface{ Capabilities() consumer.Capabilities }{
		newTraces(t, operatorConfig(), consumertest.NewNop()),
		newMetrics(t, operatorConfig(), consumertest.NewNop()),
		newLogs(t, operatorConfig(), consumertest.NewNop()),
		newProfiles(t, operatorConfig(), consumertest.NewNop()),
	} {
		assert.True(t, c.Capabilities().MutatesData)
	}
}
