// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/envprovider"
	"go.opentelemetry.io/collector/confmap/provider/yamlprovider"
)

// validate lets the collector that was built check a configuration, guard included.
func validate(t *testing.T, config string) {
	t.Helper()
	dir := os.Getenv("CONTINUUM_BIN")
	if dir == "" {
		dir = filepath.Join("..", "..", "bin")
	}
	program, err := filepath.Abs(filepath.Join(dir, "continuum-collector"))
	require.NoError(t, err)
	require.FileExists(t, program, "run `make build` first")
	file := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	cmd := exec.CommandContext(t.Context(), program, "validate", "--config", file)
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s\n%s", out, config)
}

// resolved is a configuration as the collector reads it.
func resolved(t *testing.T, config string) map[string]any {
	t.Helper()
	resolver, err := confmap.NewResolver(confmap.ResolverSettings{
		URIs:              []string{"yaml:" + config},
		ProviderFactories: []confmap.ProviderFactory{envprovider.NewFactory(), yamlprovider.NewFactory()},
		DefaultScheme:     "env",
	})
	require.NoError(t, err)
	conf, err := resolver.Resolve(t.Context())
	require.NoError(t, err, config)
	return conf.ToStringMap()
}

func valueAt(t *testing.T, m any, path ...string) any {
	t.Helper()
	for _, key := range path {
		m = m.(map[string]any)[key]
	}
	return m
}

// AD-21, ID-1: what was meant arrives, whatever it holds, and the collector takes it.
func TestConfigurations(t *testing.T) {
	t.Setenv("CREDENTIALS_DIRECTORY", "/run/credentials/x")
	for _, f := range []Format{Config, Systemd} {
		secrets := map[Format]string{Config: "/etc/continuum/op-eu", Systemd: "/run/credentials/x"}[f]
		config := configOf(t, regional().Blocks(f))
		validate(t, config)
		conf := resolved(t, config)
		operator := valueAt(t, conf, "processors", "continuumidentity/operator", "operator")
		assert.Equal(t, hostileName, valueAt(t, operator, "name"))
		assert.Equal(t, "op-eu", valueAt(t, operator, "id"))
		assert.Equal(t, map[string]any{"region": "eu-west", "evil": hostileLabel, "no": "no", "n": "0x10"}, valueAt(t, operator, "labels"))
		exporter := valueAt(t, conf, "exporters", "otlp_grpc/central")
		assert.Equal(t, "[2001:db8::1]:4317", valueAt(t, exporter, "endpoint"))
		assert.Equal(t, "op-central.continuum-system.svc", valueAt(t, exporter, "tls", "server_name_override"))
		assert.Equal(t, []any{theServer.Pins[0]}, valueAt(t, conf, "extensions", "heartbeat", "server", "ca_pins"))
		assert.Equal(t, secrets+"/heartbeat", valueAt(t, conf, "extensions", "heartbeat", "secret_file"))
		assert.Equal(t, secrets+"/export-token", valueAt(t, conf, "extensions", "ikhnosrenew", "certificates", "export", "enrollment", "token_file"))
		assert.Equal(t, "/var/lib/continuum/op-eu/policy.jws", valueAt(t, conf, "extensions", "certnameauth", "policy", "cache_file"))
		assert.Contains(t, valueAt(t, conf, "service", "extensions"), "heartbeat")
	}
	for name, blocks := range map[string][]Block{
		"to a store": toStore().Blocks(Config), "to a store by hand": toStore().Blocks(Process), "central": central().Blocks(Config),
		"stock sender": sender(Stock).Blocks(Config), "continuum sender": sender(Continuum).Blocks(Config), "continuum sender systemd": sender(Continuum).Blocks(Systemd),
	} {
		t.Run(name, func(t *testing.T) {
			config := configOf(t, blocks)
			validate(t, config)
			conf := resolved(t, config)
			switch {
			case strings.HasPrefix(name, "to a store"):
				exporter := valueAt(t, conf, "exporters", "otlp_grpc/central").(map[string]any)
				assert.Equal(t, "store.example.com:4317", exporter["endpoint"])
				assert.NotContains(t, exporter, "tls")
				assert.NotContains(t, valueAt(t, conf, "extensions", "ikhnosrenew", "certificates"), "export")
				assert.NotContains(t, valueAt(t, conf, "service", "extensions"), "heartbeat")
			case name == "central":
				assert.Equal(t, "op-central", valueAt(t, conf, "extensions", "certnameauth", "operator_id"))
			case name == "stock sender":
				assert.Equal(t, "op-eu.continuum-system.svc", valueAt(t, conf, "exporters", "otlp_grpc/op-eu", "tls", "server_name_override"))
				assert.Equal(t, "eu.example.com:30317", valueAt(t, conf, "exporters", "otlp_grpc/op-eu", "endpoint"))
			default:
				assert.Equal(t, "op-eu.continuum-system.svc", valueAt(t, conf, "exporters", "otlp_grpc/operator", "tls", "server_name_override"))
				assert.Equal(t, "eu.example.com:30317", valueAt(t, conf, "exporters", "otlp_grpc/operator", "endpoint"))
			}
		})
	}
}

// configOf is the configuration among blocks, out of its here-document too.
func configOf(t *testing.T, blocks []Block) string {
	t.Helper()
	for _, b := range blocks {
		if b.File == "configuration.sh" {
			_, text, _ := strings.Cut(b.Text, "<<'END'\n")
			return strings.TrimSuffix(text, "END\n")
		}
	}
	return block(t, blocks, ".yaml").Text
}

// What is not known here stays the environment's, with its default and its comment.
func TestConfigurationKeepsTheRest(t *testing.T) {
	config := configOf(t, central().Blocks(Config))
	assert.Contains(t, config, "${env:CONTINUUM_METRICS_URL:-http://victoriametrics:8428/opentelemetry/v1/metrics}")
	assert.Contains(t, config, "# Decides for every request")
	golden(t, "regional.golden.yaml", configOf(t, regional().Blocks(Config)))
}
