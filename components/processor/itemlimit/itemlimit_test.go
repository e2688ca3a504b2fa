// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package itemlimit

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/client"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/collector/processor/xprocessor"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ikhnos/continuum/components/processor/itemlimit/internal/metadata"
	"github.com/ikhnos/continuum/components/processor/itemlimit/internal/metadatatest"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/identity"
)

var large = strings.Repeat("x", 2000)

func from(name string) context.Context {
	sender := &identity.Sender{Name: name, Kind: controlapi.KindCluster, OrgID: "org1", ClusterID: "c1"}
	return client.NewContext(context.Background(), client.Info{Auth: &identity.AuthData{Sender: sender}})
}

func nop() processor.Settings { return processortest.NewNopSettings(metadata.Type) }

// limit returns the three stable signals behind one limit.
func limit(t *testing.T, set processor.Settings, maxBytes int, traces *consumertest.TracesSink, metrics *consumertest.MetricsSink, logs *consumertest.LogsSink) (processor.Traces, processor.Metrics, processor.Logs) {
	t.Helper()
	cfg := &Config{MaxItemBytes: maxBytes}
	tp, err := NewFactory().CreateTraces(t.Context(), set, cfg, traces)
	require.NoError(t, err)
	mp, err := NewFactory().CreateMetrics(t.Context(), set, cfg, metrics)
	require.NoError(t, err)
	lp, err := NewFactory().CreateLogs(t.Context(), set, cfg, logs)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, tp.Shutdown(context.Background()))
		assert.NoError(t, mp.Shutdown(context.Background()))
		assert.NoError(t, lp.Shutdown(context.Background()))
	})
	assert.True(t, tp.Capabilities().MutatesData && mp.Capabilities().MutatesData && lp.Capabilities().MutatesData)
	return tp, mp, lp
}

// The limit is the protobuf size of the span itself, to the byte.
func TestExactSize(t *testing.T) {
	td := ptrace.NewTraces()
	span := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	span.Attributes().PutStr("k", large)
	size := (&ptrace.ProtoMarshaler{}).SpanSize(span)
	for maxBytes, want := range map[int]int{size - 1: 0, size: 1, size + 1: 1} {
		sink := new(consumertest.TracesSink)
		tp, _, _ := limit(t, nop(), maxBytes, sink, new(consumertest.MetricsSink), new(consumertest.LogsSink))
		sent := ptrace.NewTraces()
		td.CopyTo(sent)
		require.NoError(t, tp.ConsumeTraces(t.Context(), sent))
		assert.Equal(t, want, sink.SpanCount(), maxBytes)
		assert.Len(t, sink.AllTraces(), want, "nothing is passed on of what is nothing")
	}
}

// Of each kind of item, small ones around a large one stay in their order.
func TestEveryKind(t *testing.T) {
	traces, metrics, logs := new(consumertest.TracesSink), new(consumertest.MetricsSink), new(consumertest.LogsSink)
	tp, mp, lp := limit(t, nop(), 1000, traces, metrics, logs)

	td := ptrace.NewTraces()
	spans := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans()
	spans.AppendEmpty().SetName("first")
	spans.AppendEmpty().Events().AppendEmpty().SetName(large)
	spans.AppendEmpty().SetName("last")
	td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty()
	require.NoError(t, tp.ConsumeTraces(t.Context(), td))
	got := traces.AllTraces()[0]
	require.Equal(t, 2, got.SpanCount())
	assert.Equal(t, 2, got.ResourceSpans().Len(), "what was empty before stays")
	assert.Equal(t, "last", got.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(1).Name())

	ld := plog.NewLogs()
	scopes := ld.ResourceLogs().AppendEmpty().ScopeLogs()
	records := scopes.AppendEmpty().LogRecords()
	records.AppendEmpty().Body().SetStr("first")
	records.AppendEmpty().Body().SetEmptySlice().AppendEmpty().SetStr(large)
	records.AppendEmpty().Body().SetStr("last")
	scopes.AppendEmpty().LogRecords().AppendEmpty().Attributes().PutStr("k", large)
	require.NoError(t, lp.ConsumeLogs(t.Context(), ld))
	require.Equal(t, 2, logs.LogRecordCount())
	assert.Equal(t, 1, logs.AllLogs()[0].ResourceLogs().At(0).ScopeLogs().Len(), "what became empty goes")

	md := pmetric.NewMetrics()
	all := md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics()
	for _, points := range []pmetric.NumberDataPointSlice{all.AppendEmpty().SetEmptyGauge().DataPoints(), all.AppendEmpty().SetEmptySum().DataPoints()} {
		points.AppendEmpty().Attributes().PutStr("k", large)
		points.AppendEmpty()
		points.AppendEmpty().Exemplars().AppendEmpty().FilteredAttributes().PutStr("k", large)
	}
	histogram := all.AppendEmpty().SetEmptyHistogram().DataPoints()
	histogram.AppendEmpty().Attributes().PutStr("k", large)
	histogram.AppendEmpty()
	exponential := all.AppendEmpty().SetEmptyExponentialHistogram().DataPoints()
	exponential.AppendEmpty().Attributes().PutStr("k", large)
	exponential.AppendEmpty()
	summary := all.AppendEmpty().SetEmptySummary().DataPoints()
	summary.AppendEmpty().Attributes().PutStr("k", large)
	all.AppendEmpty().SetEmptyGauge()
	require.NoError(t, mp.ConsumeMetrics(t.Context(), md))
	assert.Equal(t, 4, metrics.DataPointCount())
	assert.Equal(t, 5, metrics.AllMetrics()[0].MetricCount(), "the summary is gone, the metric without points stays")
}

// Whatever is too large around its items costs them too, but never the items of a
// neighbour.
func TestTooLargeAround(t *testing.T) {
	huge := strings.Repeat("x", defaultMaxItemBytes+1)
	traces, metrics, logs := new(consumertest.TracesSink), new(consumertest.MetricsSink), new(consumertest.LogsSink)
	tp, mp, lp := limit(t, nop(), 1000, traces, metrics, logs)

	td := ptrace.NewTraces()
	for _, value := range []string{huge, large} { // large is more than max_item_bytes, but no item
		rs := td.ResourceSpans().AppendEmpty()
		rs.Resource().Attributes().PutStr("k", value)
		rs.ScopeSpans().AppendEmpty().Spans().AppendEmpty().SetName("s")
	}
	td.ResourceSpans().AppendEmpty().Resource().Attributes().PutStr("without items", huge)
	require.NoError(t, tp.ConsumeTraces(t.Context(), td))
	assert.Equal(t, 1, traces.SpanCount())
	assert.Equal(t, 1, traces.AllTraces()[0].ResourceSpans().Len())

	ld := plog.NewLogs()
	rl := ld.ResourceLogs().AppendEmpty()
	for _, name := range []string{huge, "scope"} {
		sl := rl.ScopeLogs().AppendEmpty()
		sl.Scope().SetName(name)
		sl.LogRecords().AppendEmpty()
	}
	require.NoError(t, lp.ConsumeLogs(t.Context(), ld))
	assert.Equal(t, 1, logs.LogRecordCount())

	md := pmetric.NewMetrics()
	sm := md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty()
	for _, text := range []string{huge, "text"} {
		m := sm.Metrics().AppendEmpty()
		m.SetDescription(text)
		m.SetEmptySum().DataPoints().AppendEmpty()
	}
	require.NoError(t, mp.ConsumeMetrics(t.Context(), md))
	assert.Equal(t, 1, metrics.DataPointCount())
}

func TestProfiles(t *testing.T) {
	sink := new(consumertest.ProfilesSink)
	p, err := NewFactory().(xprocessor.Factory).CreateProfiles(t.Context(), nop(), &Config{MaxItemBytes: 1000}, sink)
	require.NoError(t, err)
	defer func() { assert.NoError(t, p.Shutdown(context.Background())) }()
	pd := pprofile.NewProfiles()
	profiles := pd.ResourceProfiles().AppendEmpty().ScopeProfiles().AppendEmpty().Profiles()
	profiles.AppendEmpty().Samples().AppendEmpty()
	profiles.AppendEmpty().Samples().AppendEmpty().Values().FromRaw(make([]int64, 2000))
	require.NoError(t, p.ConsumeProfiles(t.Context(), pd))
	assert.Equal(t, 1, sink.AllProfiles()[0].ProfileCount())
}

// case-48: a request may come before Start.
func TestWorksWithoutStart(t *testing.T) {
	sink := new(consumertest.LogsSink)
	_, _, lp := limit(t, nop(), 1000, nil, nil, sink) // not started
	ld := plog.NewLogs()
	records := ld.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords()
	records.AppendEmpty().Body().SetStr(large)
	records.AppendEmpty()
	require.NoError(t, lp.ConsumeLogs(t.Context(), ld))
	assert.Equal(t, 1, sink.LogRecordCount())
}

func TestEmptyRequests(t *testing.T) {
	traces, metrics, logs := new(consumertest.TracesSink), new(consumertest.MetricsSink), new(consumertest.LogsSink)
	tp, mp, lp := limit(t, nop(), 1, traces, metrics, logs)
	require.NoError(t, tp.ConsumeTraces(t.Context(), ptrace.NewTraces()))
	require.NoError(t, mp.ConsumeMetrics(t.Context(), pmetric.NewMetrics()))
	ld := plog.NewLogs()
	ld.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty()
	require.NoError(t, lp.ConsumeLogs(t.Context(), ld))
	assert.Equal(t, 1, logs.AllLogs()[0].ResourceLogs().At(0).ScopeLogs().Len())
}

// case-39: what the next consumer answers reaches the receiver as it is.
func TestErrorsPassUnchanged(t *testing.T) {
	want := status.Error(codes.Unavailable, "full")
	tp, err := NewFactory().CreateTraces(t.Context(), nop(), createDefaultConfig(), consumertest.NewErr(want))
	require.NoError(t, err)
	td := ptrace.NewTraces()
	td.ResourceSpans().AppendEmpty()
	assert.Same(t, want, tp.ConsumeTraces(t.Context(), td))
}

func TestCountsAndLog(t *testing.T) {
	tel := componenttest.NewTelemetry()
	defer func() { require.NoError(t, tel.Shutdown(context.Background())) }()
	core, lines := observer.New(zap.WarnLevel)
	set := metadatatest.NewSettings(tel)
	set.Logger = zap.New(core)
	_, _, lp := limit(t, set, 1000, new(consumertest.TracesSink), new(consumertest.MetricsSink), new(consumertest.LogsSink))
	send := func(ctx context.Context) {
		ld := plog.NewLogs()
		records := ld.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords()
		records.AppendEmpty().Body().SetStr(large)
		records.AppendEmpty().Body().SetStr(large)
		records.AppendEmpty()
		require.NoError(t, lp.ConsumeLogs(ctx, ld))
	}
	send(from("s1"))
	send(from("s1"))
	send(from("s2"))
	send(t.Context())
	metadatatest.AssertEqualProcessorItemlimitDroppedItems(t, tel, []metricdata.DataPoint[int64]{
		point(4, "s1"), point(2, "s2"), point(2, "_other"),
	}, metricdatatest.IgnoreTimestamp())
	require.Equal(t, 1, lines.Len(), "the first per minute")
	assert.Equal(t, map[string]any{"sender": "s1", "signal": "logs", "count": int64(2), "max_item_bytes": int64(1000)}, lines.All()[0].ContextMap())
}

func point(value int64, sender string) metricdata.DataPoint[int64] {
	return metricdata.DataPoint[int64]{Value: value, Attributes: attribute.NewSet(
		attribute.String("sender", sender), attribute.String("signal", "logs"))}
}

func TestFramed(t *testing.T) {
	for n, want := range map[int]int{0: 2, 1: 3, 127: 129, 128: 131, 16383: 16386, 16384: 16388} {
		assert.Equal(t, want, framed(n), n)
	}
	ss := ptrace.NewScopeSpans()
	size := (&ptrace.ProtoMarshaler{}).ScopeSpansSize(ss)
	span := ss.Spans().AppendEmpty()
	for _, n := range []int{0, 100, 1000, 20000} {
		span.SetName(strings.Repeat("x", n))
		assert.Equal(t, size+framed((&ptrace.ProtoMarshaler{}).SpanSize(span)), (&ptrace.ProtoMarshaler{}).ScopeSpansSize(ss))
	}
}
