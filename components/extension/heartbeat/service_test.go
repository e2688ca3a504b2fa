// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/yamlprovider"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/nopexporter"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"

	"github.com/ikhnos/continuum/internal/controlapi"
)

// reporter is a receiver that reports the status of its configuration in Start.
type reporter struct {
	component.ShutdownFunc
	permanent bool
}

type reporterConfig struct {
	Permanent bool `mapstructure:"permanent"`
}

func (r *reporter) Start(_ context.Context, host component.Host) error {
	if r.permanent {
		componentstatus.ReportStatus(host, componentstatus.NewPermanentErrorEvent(errors.New("out of order")))
	}
	return nil
}

func reporterFactory() receiver.Factory {
	return receiver.NewFactory(component.MustNewType("reporter"),
		func() component.Config { return &reporterConfig{} },
		receiver.WithLogs(func(_ context.Context, _ receiver.Settings, cfg component.Config, _ consumer.Logs) (receiver.Logs, error) {
			return &reporter{permanent: cfg.(*reporterConfig).Permanent}, nil
		}, component.StabilityLevelDevelopment))
}

// case-49: in a real service of the pinned release the extension is told of
// status changes, beats once the pipelines stand, and beats once more when they
// are about to stop.
func TestInService(t *testing.T) {
	for _, tt := range []struct {
		permanent bool
		want      controlapi.HealthStatus
	}{
		{false, controlapi.HealthOK},
		{true, controlapi.HealthPermanentError},
	} {
		t.Run(string(tt.want), func(t *testing.T) {
			url, caFile, arrivals := controlServer(t, accept)
			col := collector(t, fmt.Sprintf(`
extensions:
  heartbeat: {server: {endpoint: %q, tls: {ca_file: %q}}, secret: ikhb_example}
receivers:
  reporter: {permanent: %t}
exporters:
  nop:
service:
  extensions: [heartbeat]
  telemetry:
    metrics: {level: none}
    resource: {attributes: [{name: service.instance.id, value: instance-2}]}
  pipelines:
    logs: {receivers: [reporter], exporters: [nop]}
`, url, caFile, tt.permanent))
			ended := make(chan error, 1)
			go func() { ended <- col.Run(context.Background()) }()
			first := read(t, next(t, arrivals))
			col.Shutdown()
			last := read(t, next(t, arrivals))
			require.NoError(t, <-ended)
			require.Empty(t, arrivals, "exactly two beats")

			require.Equal(t, tt.want, first.Status)
			require.Equal(t, "instance-2", first.Instance)
			require.Equal(t, "9.9.9", first.Version)
			require.Equal(t, first, last, "the last beat tells how things stood before the stop")
		})
	}
}

func read(t *testing.T, a arrival) controlapi.Heartbeat {
	t.Helper()
	var hb controlapi.Heartbeat
	require.NoError(t, json.Unmarshal(a.body, &hb))
	return hb
}

func collector(t *testing.T, yaml string) *otelcol.Collector {
	t.Helper()
	one := func() (otelcol.Factories, error) {
		return otelcol.Factories{
			Receivers:  map[component.Type]receiver.Factory{component.MustNewType("reporter"): reporterFactory()},
			Exporters:  map[component.Type]exporter.Factory{component.MustNewType("nop"): nopexporter.NewFactory()},
			Extensions: map[component.Type]extension.Factory{component.MustNewType("heartbeat"): NewFactory()},
			Telemetry:  otelconftelemetry.NewFactory(),
		}, nil
	}
	col, err := otelcol.NewCollector(otelcol.CollectorSettings{
		BuildInfo:               component.BuildInfo{Command: "test", Version: "9.9.9"},
		Factories:               one,
		DisableGracefulShutdown: true,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			URIs:              []string{"yaml:" + yaml},
			ProviderFactories: []confmap.ProviderFactory{yamlprovider.NewFactory()},
		}},
	})
	require.NoError(t, err)
	return col
}
