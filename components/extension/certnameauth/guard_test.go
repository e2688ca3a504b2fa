// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certnameauth

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/connector"
	"go.opentelemetry.io/collector/connector/connectortest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/nopexporter"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/batchprocessor"
	"go.opentelemetry.io/collector/processor/memorylimiterprocessor"
	"go.opentelemetry.io/collector/processor/processorhelper"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/ikhnos/continuum/internal/identityguard"
	"github.com/ikhnos/continuum/internal/testpki"
)

const matrix = "../../../internal/identityguard/testdata/matrix/"

// identityConfig stands for continuumidentity, which is another component: the
// guard looks at its configuration alone.
type identityConfig struct {
	Guard    string                                      `mapstructure:"guard"`
	Sender   configoptional.Optional[identityPartConfig] `mapstructure:"sender"`
	Operator configoptional.Optional[identityPartConfig] `mapstructure:"operator"`
}

type identityPartConfig struct {
	Mode string `mapstructure:"mode"`
	ID   string `mapstructure:"id"`
	Name string `mapstructure:"name"`
}

func identityFactory() processor.Factory {
	stub := func(ctx context.Context, set processor.Settings, cfg component.Config, next consumer.Traces) (processor.Traces, error) {
		return processorhelper.NewTraces(ctx, set, cfg, next, func(_ context.Context, td ptrace.Traces) (ptrace.Traces, error) { return td, nil })
	}
	logs := func(ctx context.Context, set processor.Settings, cfg component.Config, next consumer.Logs) (processor.Logs, error) {
		return processorhelper.NewLogs(ctx, set, cfg, next, func(_ context.Context, ld plog.Logs) (plog.Logs, error) { return ld, nil })
	}
	return processor.NewFactory(component.MustNewType("continuumidentity"), func() component.Config {
		return &identityConfig{Sender: configoptional.Default(identityPartConfig{Mode: "stamp"}), Operator: configoptional.Default(identityPartConfig{})}
	}, processor.WithTraces(stub, component.StabilityLevelDevelopment), processor.WithLogs(logs, component.StabilityLevelDevelopment))
}

func factories() (otelcol.Factories, error) {
	f := otelcol.Factories{Telemetry: otelconftelemetry.NewFactory()}
	f.Receivers, _ = otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory(), receivertest.NewNopFactory())
	f.Processors, _ = otelcol.MakeFactoryMap[processor.Factory](identityFactory(), batchprocessor.NewFactory(), memorylimiterprocessor.NewFactory())
	f.Exporters, _ = otelcol.MakeFactoryMap[exporter.Factory](nopexporter.NewFactory())
	f.Connectors, _ = otelcol.MakeFactoryMap[connector.Factory](connectortest.NewNopFactory())
	var err error
	f.Extensions, err = otelcol.MakeFactoryMap[extension.Factory](NewFactory())
	return f, err
}

func collector(t *testing.T, converters []confmap.ConverterFactory, files ...string) *otelcol.Collector {
	t.Helper()
	col, err := otelcol.NewCollector(otelcol.CollectorSettings{
		Factories: factories, DisableGracefulShutdown: true,
		LoggingOptions: []zap.Option{zap.WrapCore(func(zapcore.Core) zapcore.Core { return zapcore.NewNopCore() })},
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			URIs: files, ProviderFactories: []confmap.ProviderFactory{fileprovider.NewFactory()}, ConverterFactories: converters,
		}},
	})
	require.NoError(t, err)
	return col
}

// guardConverter is what the distribution's converter does.
type guardConverter struct{}

func (guardConverter) Convert(_ context.Context, conf *confmap.Conf) error {
	return identityguard.Enforce(conf.ToStringMap(), identityguard.Written, zap.NewNop())
}

var withGuard = []confmap.ConverterFactory{confmap.NewConverterFactory(func(confmap.ConverterSettings) confmap.Converter { return guardConverter{} })}

// trap-12: the same text under validate, at a start with the converter, and at a
// start in a build that has the extension alone.
func TestGuardMatrix(t *testing.T) {
	files, err := filepath.Glob(matrix + "*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			golden, err := os.ReadFile(strings.TrimSuffix(file, ".yaml") + ".txt")
			if strings.HasPrefix(name, "ok-") {
				require.ErrorIs(t, err, os.ErrNotExist)
				require.NoError(t, collector(t, withGuard, file).DryRun(t.Context()))
				if err := runs(t, nil, file); err != nil { // the certificates are not there
					require.ErrorContains(t, err, "tls.crt")
				}
				return
			}
			require.NoError(t, err)
			text := strings.TrimSpace(string(golden))
			require.ErrorContains(t, collector(t, withGuard, file).DryRun(t.Context()), text)
			require.ErrorContains(t, runs(t, withGuard, file), text)
			switch name {
			case "extension-not-running", "several", "no-certnameauth":
				// No extension runs that could look; receivers find none either.
			default:
				require.ErrorContains(t, runs(t, nil, file), text)
			}
		})
	}
}

// runs starts a collector and ends it when it came up.
func runs(t *testing.T, converters []confmap.ConverterFactory, files ...string) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	col := collector(t, converters, files...)
	done := make(chan error, 1)
	go func() { done <- col.Run(ctx) }()
	for {
		select {
		case err := <-done:
			return err
		case <-time.After(tick):
		}
		if col.GetState() == otelcol.StateRunning {
			cancel()
			return <-done
		}
	}
}

// case-46: the list of extensions of a second file replaces that of the first.
func TestGuardOverTwoFiles(t *testing.T) {
	second := filepath.Join(t.TempDir(), "second.yaml")
	require.NoError(t, os.WriteFile(second, []byte("service: {extensions: []}\n"), 0o600))
	err := collector(t, withGuard, matrix+"ok-regional.yaml", second).DryRun(t.Context())
	require.ErrorContains(t, err, "certnameauth is defined and does not run")
	require.ErrorContains(t, runs(t, withGuard, matrix+"ok-regional.yaml", second), "certnameauth is defined and does not run")

	// A build without our converter does not start either: no receiver goes without
	// a middleware that it names.
	certificates := certificateFile(t)
	require.ErrorContains(t, runs(t, nil, matrix+"ok-regional.yaml", certificates, second), `"certnameauth"`)
	require.NoError(t, os.WriteFile(second, []byte("receivers: {otlp: {protocols: {grpc: {middlewares: [{id: certnameauth/other}]}}}}\n"), 0o600))
	require.ErrorContains(t, runs(t, withGuard, matrix+"ok-regional.yaml", certificates, second), `"certnameauth/other"`)
}

// certificateFile is a configuration that gives the receiver of the matrix real
// certificates.
func certificateFile(t *testing.T) string {
	ca := testpki.NewCA(t, operatorID)
	dir := t.TempDir()
	ca.Receiver(t).WriteDir(t, dir, ca)
	path := filepath.Join(dir, "certificates.yaml")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, `
receivers: {otlp: {protocols: {
  grpc: {tls: &tls {cert_file: %[1]s/tls.crt, key_file: %[1]s/tls.key, client_ca_file: %[1]s/ca.crt}},
  http: {tls: *tls}}}}`, dir), 0o600))
	return path
}

// case-46: so do the other lists of a second file: middlewares, receivers,
// processors, exempt receivers.
func TestSecondFileThatOpensAWay(t *testing.T) {
	for name, tt := range map[string]struct{ text, problem string }{
		"no middleware":      {"receivers: {otlp: {protocols: {http: {middlewares: []}}}}", "protocol http"},
		"no client CA":       {`receivers: {otlp: {protocols: {grpc: {tls: {client_ca_file: ""}}}}}`, "does not ask for client certificates"},
		"one more receiver":  {"receivers: {nop: }\nservice: {pipelines: {traces: {receivers: [otlp, nop]}}}", "its senders cannot be verified"},
		"one more pipeline":  {"receivers: {nop: }\nservice: {pipelines: {traces/more: {receivers: [nop], exporters: [nop]}}}", "its senders cannot be verified"},
		"no processors":      {"service: {pipelines: {traces: {processors: []}}}", "no continuumidentity with sender comes first"},
		"an exempt receiver": {"extensions: {certnameauth: {guard: {exempt_receivers: [nop]}}}\nreceivers: {nop: }\nservice: {pipelines: {traces: {receivers: [otlp, nop]}}}", "exempt and verified receivers are mixed"},
	} {
		t.Run(name, func(t *testing.T) {
			second := filepath.Join(t.TempDir(), "second.yaml")
			require.NoError(t, os.WriteFile(second, []byte(tt.text), 0o600))
			require.ErrorContains(t, collector(t, withGuard, matrix+"ok-regional.yaml", second).DryRun(t.Context()), tt.problem)
		})
	}
}
