// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ikhnosrenew

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/yamlprovider"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/otlpexporter"
	"go.opentelemetry.io/collector/exporter/otlphttpexporter"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/extension/extensioncapabilities"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/ikhnos/continuum/internal/testpki"
)

const warning = "TLS block never loads a renewed certificate"

// case-1: every TLS block of a running collector that reads our directory and has
// no reload_interval is named, and no other.
func TestReloadIntervalIsMissing(t *testing.T) {
	ca := testpki.NewCA(t, "op-abc")
	dir, elsewhere := t.TempDir(), t.TempDir()
	leaf := ca.Receiver(t)
	leaf.WriteDir(t, dir, ca)
	leaf.WriteDir(t, elsewhere, ca)
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(dir, link))
	warned := warnings(t, strings.NewReplacer("DIR", dir, "ELSEWHERE", elsewhere, "LINK", link).Replace(`
extensions:
  ikhnosrenew:
    certificates:
      receiver: {directory: DIR, mode: follow}
receivers:
  otlp:
    protocols:
      grpc:
        endpoint: 127.0.0.1:0
        tls: {cert_file: DIR/tls.crt, key_file: DIR/tls.key, client_ca_file: DIR/ca.crt}
      http:
        endpoint: 127.0.0.1:0
        tls: {cert_file: DIR/tls.crt, key_file: DIR/tls.key, client_ca_file: DIR/ca.crt, reload_interval: 5m}
  otlp/good:
    protocols:
      grpc:
        endpoint: 127.0.0.1:0
        tls: {cert_file: DIR/tls.crt, key_file: DIR/tls.key, client_ca_file: DIR/ca.crt, reload_interval: 5m, client_ca_file_reload: true}
exporters:
  otlp_grpc: {endpoint: "127.0.0.1:1", tls: {cert_file: LINK/tls.crt, key_file: LINK/tls.key, ca_file: LINK/ca.crt}}
  otlp_grpc/elsewhere: {endpoint: "127.0.0.1:1", tls: {cert_file: ELSEWHERE/tls.crt, key_file: ELSEWHERE/tls.key}}
  otlp_http: {endpoint: "https://127.0.0.1:1", tls: {ca_file: DIR/ca.crt}}
  otlp_http/zero: {endpoint: "https://127.0.0.1:1", tls: {cert_file: DIR/./tls.crt, key_file: DIR/tls.key, reload_interval: 0s}}
service:
  extensions: [ikhnosrenew]
  telemetry: {metrics: {level: none}}
  pipelines:
    logs: {receivers: [otlp, otlp/good], exporters: [otlp_grpc, otlp_grpc/elsewhere, otlp_http, otlp_http/zero]}
`))
	require.Equal(t, []string{
		"exporters::otlp_grpc::tls: " + remedyReload,
		"exporters::otlp_http/zero::tls: " + remedyReload,
		"receivers::otlp::protocols::grpc::tls: " + remedyReload,
		"receivers::otlp::protocols::http::tls: " + remedyClientCA,
	}, warned)
}

// warnings runs a collector until it is up and returns the blocks it warned of.
func warnings(t *testing.T, yaml string) []string {
	core, logs := observer.New(zapcore.WarnLevel)
	col, err := otelcol.NewCollector(otelcol.CollectorSettings{
		Factories: func() (f otelcol.Factories, err error) {
			f.Telemetry = otelconftelemetry.NewFactory()
			f.Receivers, _ = otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory())
			f.Exporters, _ = otelcol.MakeFactoryMap[exporter.Factory](otlpexporter.NewFactory(), otlphttpexporter.NewFactory())
			f.Extensions, err = otelcol.MakeFactoryMap[extension.Factory](NewFactory())
			return f, err
		},
		DisableGracefulShutdown: true,
		LoggingOptions:          []zap.Option{zap.WrapCore(func(zapcore.Core) zapcore.Core { return core })},
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			URIs: []string{"yaml:" + yaml}, ProviderFactories: []confmap.ProviderFactory{yamlprovider.NewFactory()},
		}},
	})
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- col.Run(context.Background()) }()
	require.Eventually(t, func() bool { return col.GetState() != otelcol.StateStarting }, time.Minute, 5*time.Millisecond)
	col.Shutdown()
	require.NoError(t, <-ended)
	var found []string
	for _, entry := range logs.FilterMessage(warning).All() {
		fields := entry.ContextMap()
		require.Equal(t, "receiver", fields["certificate"])
		found = append(found, fields["block"].(string)+": "+fields["remedy"].(string))
	}
	return found
}

func TestReadOnce(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	cfg.Certificates = map[string]CertificateConfig{"export": {Directory: "/certs/"}, "other": {Directory: "/certs-of-others"}}
	r := newForTest(t, cfg)
	for name, tc := range map[string]struct {
		conf map[string]any
		want []readOnce
	}{
		"no certificate": {conf: map[string]any{"a": map[string]any{"cert_file": "", "key_file": 7}}},
		"a name that begins alike": {
			conf: map[string]any{"tls": map[string]any{"cert_file": "/certs-of-others/tls.crt"}},
			want: []readOnce{{"tls", "other", remedyReload}},
		},
		"the key alone": {
			conf: map[string]any{"tls": map[string]any{"key_file": "/certs/..data/tls.key", "reload_interval": nil}},
			want: []readOnce{{"tls", "export", remedyReload}},
		},
		"intervals": {
			conf: map[string]any{
				"a": map[string]any{"cert_file": "/certs/tls.crt", "reload_interval": time.Minute},
				"b": map[string]any{"cert_file": "/certs/tls.crt", "reload_interval": "1m"},
				"c": map[string]any{"cert_file": "/certs/tls.crt", "reload_interval": int64(time.Minute)},
				"d": map[string]any{"cert_file": "/certs/tls.crt", "reload_interval": time.Duration(0)},
				"e": map[string]any{"cert_file": "/certs/tls.crt", "reload_interval": "-1m"},
				"f": map[string]any{"cert_file": "/certs/tls.crt", "reload_interval": 0},
			},
			want: []readOnce{{"d", "export", remedyReload}, {"e", "export", remedyReload}, {"f", "export", remedyReload}},
		},
		"in a list": {
			conf: map[string]any{"a": []any{"x", map[string]any{"tls": map[string]any{"cert_file": "/certs/tls.crt"}}}},
			want: []readOnce{{"a::1::tls", "export", remedyReload}},
		},
		"own telemetry": {
			conf: map[string]any{"service": map[string]any{"telemetry": map[string]any{"tls": map[string]any{"cert_file": "/certs/tls.crt", "reload_interval": "5m"}}}},
			want: []readOnce{{"service::telemetry::tls", "export", remedyTelemetry}},
		},
		"what is read at every use": {conf: map[string]any{
			"proof": map[string]any{"cert_file": "/certs/tls.crt"}, "tls_config": map[string]any{"cert_file": "/certs/tls.crt"},
		}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, r.readOnce(tc.conf)) })
	}
	require.NoError(t, r.NotifyConfigSnapshot(t.Context(), extensioncapabilities.NewConfigSnapshot(nil, nil)))
	require.NoError(t, r.Shutdown(t.Context()))
}

// case-6: a certificate mounted with subPath is said at start, once.
func TestMountedWithSubPath(t *testing.T) {
	for name, tc := range map[string]struct {
		mounts []string
		want   string
	}{
		"subPath":     {[]string{"/certs/tls.crt"}, "certificate is mounted with subPath and never changes: mount the directory"},
		"plain files": {nil, "directory to follow is not swapped as one: a Secret mounted with subPath never changes, mount the directory"},
	} {
		t.Run(name, func(t *testing.T) {
			ca := testpki.NewCA(t, "op-abc")
			cfg := createDefaultConfig().(*Config)
			cfg.Certificates = map[string]CertificateConfig{"receiver": {Directory: t.TempDir(), Mode: Follow}}
			ca.Receiver(t).WriteDir(t, cfg.Certificates["receiver"].Directory, ca)
			set := newSettings()
			core, logs := observer.New(zapcore.WarnLevel)
			set.Logger = zap.New(core)
			r, err := newRenewer(cfg, set)
			require.NoError(t, err)
			r.frozen = func(dir string) []string {
				require.Equal(t, cfg.Certificates["receiver"].Directory, dir)
				return tc.mounts
			}
			require.NoError(t, r.Start(t.Context(), newStatusHost()))
			require.NoError(t, r.Shutdown(t.Context()))
			require.Equal(t, 1, logs.Len())
			require.Equal(t, tc.want, logs.All()[0].Message)
		})
	}
}
