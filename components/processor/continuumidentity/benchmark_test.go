// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package continuumidentity

import (
	"context"
	"fmt"
	"testing"

	"github.com/open-telemetry/opentelemetry-collector-contrib/processor/transformprocessor"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor/processortest"
)

// benchRequest is how many spans a request has.
const benchRequest = 1000

// benchSpans makes clean spans in ten resources, with names of attributes as
// real data has them.
func benchSpans(spans, attributes int) ptrace.Traces {
	names := []string{
		"http.request.method", "http.response.status_code", "url.full", "server.address", "server.port",
		"client.address", "network.protocol.version", "user_agent.original", "code.function.name", "code.file.path",
		"db.system.name", "db.query.text", "db.collection.name", "rpc.system", "rpc.service", "container.id",
		"messaging.system", "messaging.destination.name", "thread.id", "exception.type", "cloud.region", "version",
	}
	td := ptrace.NewTraces()
	for r := range 10 {
		rs := td.ResourceSpans().AppendEmpty()
		rs.Resource().Attributes().PutStr("service.name", fmt.Sprint("service-", r))
		rs.Resource().Attributes().PutStr("k8s.pod.name", "pod")
		rs.Resource().Attributes().PutStr("host.name", "host")
		ss := rs.ScopeSpans().AppendEmpty()
		for range spans / 10 {
			span := ss.Spans().AppendEmpty()
			span.SetName("GET /")
			for a := range attributes {
				span.Attributes().PutStr(fmt.Sprint(names[a%len(names)], suffix(a/len(names))), "value")
			}
		}
	}
	return td
}

func suffix(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(".", n)
}

// contender is one way to strip and stamp. The sender is a cluster with two labels.
type contender struct {
	name string
	make func(testing.TB, consumer.Traces) consumer.Traces
}

var contenders = []contender{
	{"none", func(_ testing.TB, next consumer.Traces) consumer.Traces { return next }},
	{"continuumidentity", func(t testing.TB, next consumer.Traces) consumer.Traces {
		return newTraces(t, senderConfig(ModeStamp), next)
	}},
	{"transform", newTransform},
}

// newTransform does with the transform processor of the same release what it can
// do of the same: it strips in five contexts and stamps fixed values.
func newTransform(t testing.TB, next consumer.Traces) consumer.Traces {
	const reserved = `(?i)^[^a-z0-9]*(continuum([^a-z0-9].*)?|vm[^a-z0-9]+(account|project)[^a-z0-9]+id[^a-z0-9]*)$`
	strip := func(attributes string) any { return fmt.Sprintf("delete_matching_keys(%s, %q)", attributes, reserved) }
	set := func(key, value string) any { return fmt.Sprintf("set(resource.attributes[%q], %q)", key, value) }
	factory := transformprocessor.NewFactory()
	cfg := factory.CreateDefaultConfig()
	require.NoError(t, confmap.NewFromStringMap(map[string]any{"trace_statements": []any{
		map[string]any{"context": "resource", "statements": []any{strip("resource.attributes"),
			set("continuum.org.id", "org1"), set("continuum.cluster.id", "c1"), set("env", "prod"), set("region", "eu-west")}},
		map[string]any{"context": "scope", "statements": []any{strip("scope.attributes")}},
		map[string]any{"context": "span", "statements": []any{strip("span.attributes")}},
		map[string]any{"context": "spanevent", "statements": []any{strip("spanevent.attributes")}},
	}}).Unmarshal(cfg))
	p, err := factory.CreateTraces(context.Background(), processortest.NewNopSettings(factory.Type()), cfg, next)
	require.NoError(t, err)
	return p
}

// perSpan reports time for one span, which is what the promises are about.
func perSpan(b *testing.B, spans int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(spans), "ns/span")
}

// shape is a request to measure with.
type shape struct {
	name string
	td   ptrace.Traces
}

// benchShapes are requests in which nothing is reserved. The first is the one that
// the promises name.
func benchShapes() []shape {
	events := benchSpans(benchRequest, 10)
	for _, rs := range events.ResourceSpans().All() {
		for _, span := range rs.ScopeSpans().At(0).Spans().All() {
			span.Events().AppendEmpty().Attributes().PutStr("exception.type", "value")
		}
	}
	return []shape{{"40 attributes", benchSpans(benchRequest, 40)}, {"10 attributes and an event", events}}
}

// through is the work alone, on a request that carries the stamps of the first round.
func through(p consumer.Traces, td ptrace.Traces) func() error {
	ctx := as(clusterSender())
	return func() error { return p.ConsumeTraces(ctx, td) }
}

// relay is what a collector does with a request: it decodes it, strips and
// stamps in the way given, and encodes it again.
func relay(t testing.TB, c contender) func() error {
	wire, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(benchSpans(benchRequest, 40))
	require.NoError(t, err)
	encode, err := consumer.NewTraces(func(_ context.Context, td ptrace.Traces) error {
		_, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(td)
		return err
	})
	require.NoError(t, err)
	p, ctx := c.make(t, encode), as(clusterSender())
	return func() error {
		td, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(wire)
		if err != nil {
			return err
		}
		return p.ConsumeTraces(ctx, td)
	}
}

func loop(b *testing.B, way func() error) {
	require.NoError(b, way())
	b.ReportAllocs()
	for b.Loop() {
		if err := way(); err != nil {
			b.Fatal(err)
		}
	}
	perSpan(b, benchRequest)
}

// BenchmarkStripAndStamp is the work alone.
func BenchmarkStripAndStamp(b *testing.B) {
	for _, shape := range benchShapes() {
		for _, c := range contenders[1:] {
			b.Run(shape.name+"/"+c.name, func(b *testing.B) { loop(b, through(c.make(b, consumertest.NewNop()), shape.td)) })
		}
	}
}

// BenchmarkForged is the same when every span and resource carries a forged
// identity. The time of the copy that each round needs is in the line "none".
func BenchmarkForged(b *testing.B) {
	forged := benchSpans(benchRequest, 40)
	visitTraces(forged, func(_ level, m pcommon.Map) {
		m.PutStr("Continuum.Cluster.Id", "forged")
		m.PutStr("continuum.cluster.id", "forged")
	})
	for _, c := range contenders {
		b.Run(c.name, func(b *testing.B) {
			p := c.make(b, consumertest.NewNop())
			ctx, td := as(clusterSender()), ptrace.NewTraces()
			for b.Loop() {
				forged.CopyTo(td)
				if err := p.ConsumeTraces(ctx, td); err != nil {
					b.Fatal(err)
				}
			}
			perSpan(b, benchRequest)
		})
	}
}

// BenchmarkPipeline is the share of it in what a collector does with a request.
func BenchmarkPipeline(b *testing.B) {
	for _, c := range contenders {
		b.Run(c.name, func(b *testing.B) { loop(b, relay(b, c)) })
	}
}
