// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certnameauth

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/confmaptest"

	"github.com/ikhnos/continuum/internal/controlapi"
)

func loadConfig(t *testing.T, id string) (*Config, error) {
	t.Helper()
	conf, err := confmaptest.LoadConf(filepath.Join("testdata", "config.yaml"))
	require.NoError(t, err)
	sub, err := conf.Sub(id)
	require.NoError(t, err)
	cfg := createDefaultConfig().(*Config)
	require.NoError(t, sub.Unmarshal(cfg))
	return cfg, confmap.Validate(cfg)
}

func TestConfigDefaults(t *testing.T) {
	cfg, err := loadConfig(t, "certnameauth")
	require.NoError(t, err)
	policy := cfg.Policy.Get()
	assert.Equal(t, "https://ikhnos.example.com", policy.Server.Endpoint)
	assert.Equal(t, reportSenders, policy.Report)
	assert.Zero(t, policy.MaxStaleness)
	assert.Equal(t, []string{"dns_san", "uri_san"}, cfg.Match)
	assert.Equal(t, 30*time.Second, cfg.RequestTimeout)
	assert.Equal(t, guardEnforce, cfg.Guard.Mode)
}

func TestConfigAll(t *testing.T) {
	cfg, err := loadConfig(t, "certnameauth/all")
	require.NoError(t, err)
	policy := cfg.Policy.Get()
	assert.Len(t, policy.Server.CAPins, 1)
	assert.Equal(t, "/var/lib/continuum/policy.jws", policy.CacheFile)
	assert.Equal(t, time.Hour, policy.MaxStaleness)
	assert.Equal(t, reportApplied, policy.Report)
	assert.True(t, cfg.match().CommonName)
	assert.Equal(t, CRLConfig{File: "crl.pem", CAFile: "ca.crt"}, cfg.CRL)
	assert.Equal(t, GuardConfig{Mode: guardWarn, ExemptReceivers: []component.ID{component.MustNewIDWithName("otlp", "self")}}, cfg.Guard)
}

func TestConfigStatic(t *testing.T) {
	cfg, err := loadConfig(t, "certnameauth/static")
	require.NoError(t, err)
	assert.False(t, cfg.Policy.HasValue())
	assert.Equal(t, controlapi.PolicySender{
		Name: "op-abc-export-op-b", URI: "spiffe://op-abc.ikhnos/operator/op-b", Kind: controlapi.KindOperator, OrgID: "default",
		OperatorID: "op-b", OperatorName: "EU West", State: controlapi.SenderAllowed,
		Vouches: []controlapi.Vouch{{OrgID: "default", ClusterID: "c7", Labels: map[string]string{"zone": "a"}}},
	}, cfg.Senders[1].policySender(cfg.OperatorID))
}

// Every fault of a configuration is named at once.
func TestConfigFaults(t *testing.T) {
	for id, want := range map[string][]error{
		"certnameauth/no_source":   {errOneSource},
		"certnameauth/two_sources": {errOneSource},
		"certnameauth/everything_wrong": {
			errOperatorID, errProofFiles, errStaleness, errReport, errMatch, errCRL, errTimeout, errGuardMode,
		},
		"certnameauth/wrong_senders": {
			errMatch, errSenderName, errSenderKind, errSenderOrg, errClusterIDs, errOperatorIDs, errVouch, errSenderTwice, errIdentityDupe,
		},
	} {
		_, err := loadConfig(t, id)
		for _, fault := range want {
			require.ErrorIs(t, err, fault, id)
		}
	}
	_, err := loadConfig(t, "certnameauth/everything_wrong")
	require.ErrorContains(t, err, "https://")
	require.ErrorContains(t, err, "insecure_skip_verify")
	_, err = loadConfig(t, "certnameauth/wrong_senders")
	require.ErrorContains(t, err, `senders[6] "SIX."`)
	require.ErrorContains(t, err, "continuum_x")
}
