// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ikhnosrenew

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/confmaptest"

	"github.com/ikhnos/continuum/components/extension/ikhnosrenew/internal/metadata"
)

func loadConfig(t *testing.T, name string) (*Config, error) {
	t.Helper()
	file, err := confmaptest.LoadConf(filepath.Join("testdata", "config.yaml"))
	require.NoError(t, err)
	sub, err := file.Sub(component.NewIDWithName(metadata.Type, name).String())
	require.NoError(t, err)
	cfg := createDefaultConfig().(*Config)
	return cfg, sub.Unmarshal(cfg)
}

func TestConfig(t *testing.T) {
	cfg, err := loadConfig(t, "")
	require.NoError(t, err)
	require.NoError(t, confmap.Validate(cfg))
	require.Equal(t, 60*time.Second, cfg.StartupTimeout)
	require.Equal(t, 30*time.Second, cfg.Server.Get().Timeout)

	cfg, err = loadConfig(t, "full")
	require.NoError(t, err)
	require.NoError(t, confmap.Validate(cfg))
	require.Equal(t, 10*time.Second, cfg.Server.Get().Timeout)
	require.Len(t, cfg.Server.Get().CAPins, 1)
	require.Equal(t, 90*time.Second, cfg.StartupTimeout)
	require.Equal(t, []component.ID{component.MustNewID("health_check")}, cfg.StartAfter)
	require.Equal(t, []string{"export", "receiver"}, cfg.labels())
	receiver := cfg.Certificates["receiver"]
	require.Equal(t, SecretConfig{"continuum-system", "op-abc-receiver-tls"}, *receiver.KubernetesSecret.Get())
	require.Equal(t, "/run/secrets/continuum/token", receiver.Enrollment.Get().TokenFile)
	export := cfg.Certificates["export"]
	require.False(t, export.follows() || export.Enrollment.HasValue() || export.KubernetesSecret.HasValue())

	cfg, err = loadConfig(t, "follow")
	require.NoError(t, err)
	require.NoError(t, confmap.Validate(cfg))
	require.False(t, cfg.Server.HasValue())
}

// Every fault is told at once, with its key.
func TestConfigFaults(t *testing.T) {
	cfg, err := loadConfig(t, "empty")
	require.NoError(t, err)
	require.ErrorIs(t, confmap.Validate(cfg), errNoCertificates)

	cfg, err = loadConfig(t, "faults")
	require.NoError(t, err)
	err = confmap.Validate(cfg)
	for _, want := range []error{
		errStartup, errMode, errServer, errDirectory, errDirectoryTwice,
		errFollowEnrolls, errSecretName, errSecretTwice, errTokenFile,
	} {
		require.ErrorIs(t, err, want)
	}
	require.ErrorContains(t, err, "certificates::b")

	_, err = loadConfig(t, "typo")
	require.ErrorContains(t, err, "ca_pin", "a mistyped pin would leave the server unpinned")
}
