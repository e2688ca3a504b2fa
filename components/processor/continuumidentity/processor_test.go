// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package continuumidentity

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/client"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pipeline"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ikhnos/continuum/components/processor/continuumidentity/internal/metadata"
	"github.com/ikhnos/continuum/components/processor/continuumidentity/internal/metadatatest"
	"github.com/ikhnos/continuum/internal/identity"
)

// case-22: a header is not an identity; case-34: neither is a context that a
// batch processor made anew.
func TestNoIdentity(t *testing.T) {
	forged := client.NewMetadata(map[string][]string{"x-sender": {"op-abc-export-c1"}, "sender.cluster_id": {"c1"}})
	for name, ctx := range map[string]context.Context{
		"nothing":              t.Context(),
		"headers alone":        client.NewContext(t.Context(), client.Info{Metadata: forged}),
		"no sender in it":      client.NewContext(t.Context(), client.Info{Auth: &identity.AuthData{}}),
		"nil":                  client.NewContext(t.Context(), client.Info{Auth: (*identity.AuthData)(nil)}),
		"sender without an id": as(&identity.Sender{Name: "x", Kind: "cluster"}),
		"sender without kind":  as(&identity.Sender{Name: "x", ClusterID: "c1"}),
	} {
		t.Run(name, func(t *testing.T) {
			for _, mode := range []Mode{ModeStamp, ModeEnforce} {
				err := newTraces(t, senderConfig(mode), consumertest.NewNop()).ConsumeTraces(ctx, oneSpan(t))
				assertRefused(t, err, codes.Unavailable, "no_identity")
				assert.False(t, consumererror.IsPermanent(err), "it must not cost the sender its data")
			}
			require.NoError(t, newTraces(t, senderConfig(ModeOff), consumertest.NewNop()).ConsumeTraces(ctx, oneSpan(t)))
			require.NoError(t, newTraces(t, operatorConfig(), consumertest.NewNop()).ConsumeTraces(ctx, oneSpan(t)))
		})
	}
}

func TestConflictIsPermanent(t *testing.T) {
	p := newTraces(t, senderConfig(ModeEnforce), consumertest.NewNop())
	err := p.ConsumeTraces(as(clusterSender()), oneSpan(t, kv{"continuum.cluster.id", "secret-claim"}))
	assert.True(t, consumererror.IsPermanent(err))
	assert.NotContains(t, err.Error(), "secret-claim")
	assertRefused(t, err, codes.InvalidArgument, "identity_conflict")
	assert.Equal(t, codes.InvalidArgument, status.Code(fmt.Errorf("wrapped: %w", err)))
}

// case-39: what the next consumer answers reaches the receiver as it is.
func TestErrorsPassUnchanged(t *testing.T) {
	want := status.Error(codes.Unavailable, "data refused due to high memory usage")
	for _, cfg := range []*Config{senderConfig(ModeStamp), operatorConfig()} {
		got := newTraces(t, cfg, consumertest.NewErr(want)).ConsumeTraces(as(clusterSender()), oneSpan(t))
		assert.Same(t, want, got, "the very same error")
	}
}

// case-48: a request may come before Start.
func TestWorksWithoutStart(t *testing.T) {
	require.NoError(t, newTraces(t, senderConfig(ModeStamp), consumertest.NewNop()).ConsumeTraces(as(clusterSender()), oneSpan(t)))
}

func TestMetrics(t *testing.T) {
	tel := componenttest.NewTelemetry()
	defer func() { require.NoError(t, tel.Shutdown(context.Background())) }()
	set := metadatatest.NewSettings(tel)
	stamp := newTracesWith(t, set, senderConfig(ModeStamp), consumertest.NewNop())
	enforce := newTracesWith(t, set, senderConfig(ModeEnforce), consumertest.NewNop())

	td := oneSpan(t, kv{"continuum.org.id", "x"}, kv{"continuum.cluster.id", 1}, kv{"continuum.x", 1}, kv{"Region", "r"})
	fill(t, td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).Attributes(), kv{"continuum", 1}, kv{"continuum", 1})
	require.NoError(t, stamp.ConsumeTraces(as(clusterSender()), td))
	require.NoError(t, stamp.ConsumeTraces(as(operatorSender()), oneSpan(t, kv{"continuum.org.id", "org3"}, kv{"continuum.operator.id", "op-x"})))
	require.Error(t, stamp.ConsumeTraces(t.Context(), oneSpan(t)))
	both := oneSpan(t, kv{"continuum.org.id", "org1"}, kv{"continuum.cluster.id", "c9"})
	oneSpan(t).ResourceSpans().MoveAndAppendTo(both.ResourceSpans())
	require.NoError(t, enforce.ConsumeTraces(as(operatorSender()), both))
	require.Error(t, enforce.ConsumeTraces(as(clusterSender()), oneSpan(t, kv{"continuum.org.id", "x"})))

	const c1, op = "op-abc-export-c1", "op-central-export-op-abc"
	metadatatest.AssertEqualProcessorContinuumidentityRemovedAttributes(t, tel, []metricdata.DataPoint[int64]{
		point(2, "sender", c1, "level", "resource"),
		point(2, "sender", c1, "level", "span"),
		point(1, "sender", op, "level", "resource"),
	}, metricdatatest.IgnoreTimestamp())
	metadatatest.AssertEqualProcessorContinuumidentityConflicts(t, tel, []metricdata.DataPoint[int64]{
		point(1, "sender", c1, "signal", "traces", "key", "org_id", "action", "overwritten"),
		point(1, "sender", c1, "signal", "traces", "key", "cluster_id", "action", "overwritten"),
		point(1, "sender", op, "signal", "traces", "key", "org_id", "action", "removed"),
		point(1, "sender", op, "signal", "traces", "key", "operator_id", "action", "overwritten"),
		point(1, "sender", op, "signal", "traces", "key", "cluster_id", "action", "dropped"),
		point(1, "sender", c1, "signal", "traces", "key", "org_id", "action", "dropped"),
	}, metricdatatest.IgnoreTimestamp())
	metadatatest.AssertEqualProcessorContinuumidentityRefusedItems(t, tel, []metricdata.DataPoint[int64]{
		point(1, "sender", "_other", "signal", "traces", "reason", "no_identity"),
		point(1, "sender", op, "signal", "traces", "reason", "origin_not_vouched"),
		point(1, "sender", c1, "signal", "traces", "reason", "identity_conflict"),
	}, metricdatatest.IgnoreTimestamp())
}

func point(value int64, pairs ...string) metricdata.DataPoint[int64] {
	var attrs []attribute.KeyValue
	for i := 0; i < len(pairs); i += 2 {
		attrs = append(attrs, attribute.String(pairs[i], pairs[i+1]))
	}
	return metricdata.DataPoint[int64]{Value: value, Attributes: attribute.NewSet(attrs...)}
}

// foreignAuth is what another authenticator might say.
type foreignAuth map[string]any

func (a foreignAuth) GetAttribute(name string) any { return a[name] }

func (a foreignAuth) GetAttributeNames() (names []string) {
	for name := range a {
		names = append(names, name)
	}
	return names
}

func TestOtherAuthenticators(t *testing.T) {
	cfg := senderConfig(ModeStamp)
	cfg.Sender.Get().Attributes = Attributes{Name: "subject", OrgID: "org", ClusterID: "membership", OperatorID: "op", LabelPrefix: "label."}
	for _, tc := range []struct {
		name string
		auth foreignAuth
		want []kv
	}{
		{"cluster", foreignAuth{"subject": "s", "org": "o", "membership": "c", "label.env": "e", "label.continuum.x": "no"},
			[]kv{{"continuum.org.id", "o"}, {"continuum.cluster.id", "c"}, {"env", "e"}}},
		{"no organisation", foreignAuth{"membership": "c"}, []kv{{"continuum.cluster.id", "c"}}},
		{"operator", foreignAuth{"op": "op-1", "membership": "c"}, []kv{{"continuum.operator.id", "op-1"}}},
		{"no string", foreignAuth{"membership": []string{"c"}}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sink := new(consumertest.TracesSink)
			ctx := client.NewContext(t.Context(), client.Info{Auth: tc.auth})
			err := newTraces(t, cfg, sink).ConsumeTraces(ctx, oneSpan(t, kv{"continuum.org.id", "forged"}, kv{"ENV", "forged"}))
			if tc.want == nil {
				assertRefused(t, err, codes.Unavailable, "no_identity")
				return
			}
			require.NoError(t, err)
			got := list(sink.AllTraces()[0].ResourceSpans().At(0).Resource().Attributes())
			if tc.auth["label.env"] == nil {
				tc.want = append(tc.want, kv{"ENV", "forged"}) // no label of this sender
			}
			assert.Equal(t, canonical(tc.want), canonical(got))
		})
	}
}

// Policies replace senders all the time; the rules of those that are gone go too.
func TestRulesOfReplacedSendersAreFreed(t *testing.T) {
	var cache ruleCache
	kept := clusterSender()
	first := cache.get(kept)
	require.Same(t, first, cache.get(kept))
	for range 1000 {
		cache.get(operatorSender())
	}
	size := func() int {
		runtime.GC()
		cache.mu.RLock()
		defer cache.mu.RUnlock()
		return len(cache.rules)
	}
	assert.Eventually(t, func() bool { return size() == 1 }, time.Minute, time.Millisecond)
	assert.NotNil(t, cache.get(kept))
	runtime.KeepAlive(kept)
}

// Nothing of one request shows in another: many senders at once.
func TestConcurrentSenders(t *testing.T) {
	check, err := consumer.NewTraces(func(ctx context.Context, td ptrace.Traces) error {
		want := client.FromContext(ctx).Auth.GetAttribute(identity.AttrClusterID)
		got, _ := td.ResourceSpans().At(0).Resource().Attributes().Get(identity.KeyClusterID)
		if got.Str() != want {
			return fmt.Errorf("%q instead of %q", got.Str(), want)
		}
		return nil
	})
	require.NoError(t, err)
	p := newTraces(t, senderConfig(ModeStamp), check)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			sender := clusterSender()
			sender.ClusterID = fmt.Sprint("c", i)
			for range 200 {
				assert.NoError(t, p.ConsumeTraces(as(sender), oneSpan(t, kv{"continuum.cluster.id", "c0"})))
			}
		})
	}
	wg.Wait()
}

func TestConflictLog(t *testing.T) {
	core, lines := observer.New(zap.WarnLevel)
	now := time.Unix(0, 0)
	log := newConflictLog(zap.New(core), func() time.Time { return now })
	for range 5 {
		log.conflicts("s", "traces", "org_id", "overwritten", 2)
		log.refused("s", "traces", "no_identity")
	}
	require.Equal(t, 2, lines.Len())
	now = now.Add(logInterval)
	log.conflicts("s", "traces", "org_id", "overwritten", 1)
	require.Equal(t, 3, lines.Len())
	assert.Equal(t, int64(9), lines.All()[2].ContextMap()["count"])
	for i := range maxLogTopics + 1 {
		log.refused(fmt.Sprint(i), "traces", "no_identity")
	}
	assert.LessOrEqual(t, len(log.topics), maxLogTopics)
}

func TestNothingAllocatedWhenClean(t *testing.T) {
	p, err := newProcessor(processortest.NewNopSettings(metadata.Type), senderConfig(ModeStamp), pipeline.SignalTraces)
	require.NoError(t, err)
	ctx := as(clusterSender())
	few, many := benchSpans(10, 40), benchSpans(1000, 40)
	for _, td := range []ptrace.Traces{few, many} {
		_, err := p.traces(ctx, td)
		require.NoError(t, err)
		assert.Zero(t, testing.AllocsPerRun(20, func() { _, _ = p.traces(ctx, td) }))
	}
}
