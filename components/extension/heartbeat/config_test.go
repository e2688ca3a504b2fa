// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/confmaptest"

	"github.com/ikhnos/continuum/internal/controlclient"
)

// loadConfig reads one entry of testdata/config.yaml and validates it.
func loadConfig(t *testing.T, name string) (*Config, error) {
	t.Helper()
	conf, err := confmaptest.LoadConf(filepath.Join("testdata", "config.yaml"))
	require.NoError(t, err)
	sub, err := conf.Sub(name)
	require.NoError(t, err)
	cfg := createDefaultConfig().(*Config)
	require.NoError(t, sub.Unmarshal(cfg))
	return cfg, confmap.Validate(cfg)
}

func TestConfigRead(t *testing.T) {
	t.Run("defaults", func(t *testing.T) { // HB-3
		cfg, err := loadConfig(t, "heartbeat")
		require.NoError(t, err)
		want := &Config{
			Server:        controlclient.NewDefaultConfig(),
			Interval:      60 * time.Second,
			SecretFile:    "/run/secrets/continuum/heartbeat",
			WhenUnhealthy: Send,
		}
		want.Server.Endpoint = "https://ikhnos.example.com"
		want.Server.CAPins = []string{"sha256:0000000000000000000000000000000000000000000000000000000000000000"}
		require.Equal(t, want, cfg)
	})
	t.Run("everything", func(t *testing.T) {
		cfg, err := loadConfig(t, "heartbeat/everything")
		require.NoError(t, err)
		want := &Config{
			Server:         controlclient.NewDefaultConfig(),
			AllowPlainHTTP: true,
			Interval:       10 * time.Second,
			Secret:         "ikhb_example",
			WhenUnhealthy:  Skip,
		}
		want.Server.Endpoint = "http://127.0.0.1:8080"
		want.Server.Timeout = 5 * time.Second
		want.Server.PlainHTTP = true
		require.Equal(t, want, cfg)
	})
}

// TestConfigRefused: HB-12, HB-14, HB-15, TG-23: one secret from a file or the
// environment, TLS that cannot be switched off, and a word where a boolean would be.
func TestConfigRefused(t *testing.T) {
	for _, tt := range []struct {
		name string
		want []string
	}{
		{"heartbeat/plain_http", []string{"https://"}}, // HB-15
		{"heartbeat/no_secret", []string{errSecret.Error()}},
		{"heartbeat/two_secrets", []string{errSecret.Error()}},
		{"heartbeat/all_wrong", []string{errSecret.Error(), errInterval.Error() + ", not 9s", errWhenUnhealthy.Error() + `, not "maybe"`}},
		// HB-3
		{"heartbeat/too_rare", []string{errInterval.Error() + ", not 1m1s"}},
		{"heartbeat/no_endpoint", []string{"endpoint"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := loadConfig(t, tt.name)
			require.Error(t, err)
			for _, text := range tt.want {
				require.ErrorContains(t, err, text)
			}
			require.NotContains(t, err.Error(), "ikhb_example")
		})
	}
}
