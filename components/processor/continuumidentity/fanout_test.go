// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package continuumidentity

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/yamlprovider"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"

	"github.com/ikhnos/continuum/components/processor/continuumidentity/internal/metadata"
)

const fanOutConfig = `yaml:
receivers: {entry: {}}
processors:
  continuumidentity/sender: {sender: {mode: stamp}}
  continuumidentity/operator: {operator: {id: op-abc}}
exporters: {sink/plain: {}, sink/stamped: {}}
service:
  telemetry: {metrics: {level: none}, logs: {level: error}}
  pipelines:
    traces/plain: {receivers: [entry], exporters: [sink/plain]}
    traces/plain2: {receivers: [entry], exporters: [sink/plain]}
    traces/stamped: {receivers: [entry], processors: [continuumidentity/sender, continuumidentity/operator], exporters: [sink/stamped]}
`

// plainComponent has nothing to start or stop.
type plainComponent struct {
	component.StartFunc
	component.ShutdownFunc
}

// plainExporter keeps what it gets, and does not change it.
type plainExporter struct {
	plainComponent
	*consumertest.TracesSink
}

func (plainExporter) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

// runFanOut runs a real collector in which one receiver feeds three pipelines, and
// returns the receiver's next consumer and the sinks by their name.
func runFanOut(t *testing.T) (consumer.Traces, map[string]*consumertest.TracesSink) {
	var entry consumer.Traces
	sinks := map[string]*consumertest.TracesSink{"plain": {}, "stamped": {}}
	receivers := receiver.NewFactory(component.MustNewType("entry"), func() component.Config { return &struct{}{} },
		receiver.WithTraces(func(_ context.Context, _ receiver.Settings, _ component.Config, next consumer.Traces) (receiver.Traces, error) {
			entry = next
			return plainComponent{}, nil
		}, component.StabilityLevelStable))
	exporters := exporter.NewFactory(component.MustNewType("sink"), func() component.Config { return &struct{}{} },
		exporter.WithTraces(func(_ context.Context, set exporter.Settings, _ component.Config) (exporter.Traces, error) {
			return plainExporter{TracesSink: sinks[set.ID.Name()]}, nil
		}, component.StabilityLevelStable))
	col, err := otelcol.NewCollector(otelcol.CollectorSettings{
		Factories: func() (otelcol.Factories, error) {
			return otelcol.Factories{
				Receivers:  map[component.Type]receiver.Factory{receivers.Type(): receivers},
				Processors: map[component.Type]processor.Factory{metadata.Type: NewFactory()},
				Exporters:  map[component.Type]exporter.Factory{exporters.Type(): exporters},
				Telemetry:  otelconftelemetry.NewFactory(),
			}, nil
		},
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			URIs: []string{fanOutConfig}, ProviderFactories: []confmap.ProviderFactory{yamlprovider.NewFactory()},
		}},
		DisableGracefulShutdown: true,
	})
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- col.Run(context.Background()) }()
	t.Cleanup(func() {
		col.Shutdown()
		assert.NoError(t, <-done)
	})
	require.Eventually(t, func() bool { return col.GetState() == otelcol.StateRunning }, time.Minute, 5*time.Millisecond)
	return entry, sinks
}

// case-32: one receiver, three pipelines, of which one changes data. The siblings
// see what was sent, and the race detector sees nothing.
func TestSharedDataIsNeverDamaged(t *testing.T) {
	entry, sinks := runFanOut(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 25 {
				td := oneSpan(t, kv{"continuum.cluster.id", "forged"}, kv{"service.name", "a"}, kv{"Continuum.X", "y"})
				fill(t, td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).Attributes(), kv{"continuum.x", 1}, kv{"k", "v"})
				assert.NoError(t, entry.ConsumeTraces(as(clusterSender()), td))
			}
		})
	}
	wg.Wait()
	each(t, sinks["plain"], 400, func(rs ptrace.ResourceSpans) {
		assert.Equal(t, []kv{{"continuum.cluster.id", "forged"}, {"service.name", "a"}, {"Continuum.X", "y"}}, list(rs.Resource().Attributes()))
		assert.Equal(t, 2, rs.ScopeSpans().At(0).Spans().At(0).Attributes().Len())
	})
	each(t, sinks["stamped"], 200, func(rs ptrace.ResourceSpans) {
		assert.Equal(t, []kv{{"continuum.cluster.id", "c1"}, {"service.name", "a"}, {"continuum.org.id", "org1"}, {"env", "prod"},
			{"region", "eu-west"}, {"continuum.operator.id", "op-abc"}}, list(rs.Resource().Attributes()))
		assert.Equal(t, []kv{{"k", "v"}}, list(rs.ScopeSpans().At(0).Spans().At(0).Attributes()))
	})
}

func each(t *testing.T, sink *consumertest.TracesSink, want int, f func(ptrace.ResourceSpans)) {
	require.Len(t, sink.AllTraces(), want)
	for _, td := range sink.AllTraces() {
		for _, rs := range td.ResourceSpans().All() {
			f(rs)
		}
	}
}
