// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package assembly

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/yamlprovider"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/nopexporter"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/memorylimiterprocessor"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/ikhnos/continuum/components/extension/certnameauth"
	"github.com/ikhnos/continuum/components/extension/ikhnosrenew"
	"github.com/ikhnos/continuum/components/processor/continuumidentity"
	"github.com/ikhnos/continuum/components/processor/itemlimit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func factories() (f otelcol.Factories, err error) {
	f.Telemetry = otelconftelemetry.NewFactory()
	f.Receivers, _ = otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory())
	f.Processors, _ = otelcol.MakeFactoryMap[processor.Factory](
		continuumidentity.NewFactory(), itemlimit.NewFactory(), memorylimiterprocessor.NewFactory())
	f.Exporters, _ = otelcol.MakeFactoryMap[exporter.Factory](nopexporter.NewFactory())
	f.Extensions, err = otelcol.MakeFactoryMap[extension.Factory](certnameauth.NewFactory(), ikhnosrenew.NewFactory())
	return f, err
}

// run starts a collector, which has to come up, and returns what it logs from
// level warn on. stop ends it.
func run(t *testing.T, yaml string) (logs *observer.ObservedLogs, stop func()) {
	t.Helper()
	core, logs := observer.New(zapcore.WarnLevel)
	col, err := otelcol.NewCollector(otelcol.CollectorSettings{
		Factories: factories, DisableGracefulShutdown: true,
		LoggingOptions: []zap.Option{zap.WrapCore(func(zapcore.Core) zapcore.Core { return core })},
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			URIs: []string{"yaml:" + yaml}, ProviderFactories: []confmap.ProviderFactory{yamlprovider.NewFactory()},
		}},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- col.Run(ctx) }()
	t.Cleanup(cancel)
	require.Eventually(t, func() bool {
		return col.GetState() == otelcol.StateRunning || len(ended) > 0
	}, 2*time.Minute, 5*time.Millisecond)
	return logs, func() {
		t.Helper()
		cancel()
		require.NoError(t, <-ended)
	}
}
