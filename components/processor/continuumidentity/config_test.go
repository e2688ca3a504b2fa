// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package continuumidentity

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/confmaptest"
)

func load(t *testing.T, name string) (*Config, error) {
	t.Helper()
	file, err := confmaptest.LoadConf("testdata/config.yaml")
	require.NoError(t, err)
	sub, err := file.Sub("continuumidentity/" + name)
	require.NoError(t, err)
	cfg := createDefaultConfig().(*Config)
	if err := sub.Unmarshal(cfg); err != nil {
		return nil, err
	}
	return cfg, confmap.Validate(cfg)
}

func TestLoadConfig(t *testing.T) {
	all := senderConfig(ModeEnforce)
	all.Sender.Get().Attributes = Attributes{Name: "subject", OrgID: "org", ClusterID: "membership", LabelPrefix: "label."}
	all.Operator = configoptional.Some(OperatorConfig{ID: "op-abc"})
	all.ReservedKeys, all.LabelsBelow, all.Guard = []string{"tenant.id"}, LabelsRename, GuardOff
	operator := createDefaultConfig().(*Config)
	operator.Operator = configoptional.Some(OperatorConfig{ID: "op-abc", Name: "EU West",
		Labels: map[string]string{"region": "eu-west", "cloud.provider": "example"}})
	for name, want := range map[string]*Config{
		"sender":   senderConfig(ModeStamp),
		"defaults": senderConfig(ModeStamp),
		"exempt":   senderConfig(ModeOff),
		"operator": operator,
		"all":      all,
	} {
		t.Run(name, func(t *testing.T) {
			got, err := load(t, name)
			require.NoError(t, err)
			assert.Equal(t, want, got)
		})
	}
}

func TestInvalidConfig(t *testing.T) {
	for name, want := range map[string][]error{
		"invalid_nothing": {errNothingToDo},
		"invalid_mode":    {errMode},
		"invalid_rest":    {errAttributes, errOperatorID, errReservedKey, errLabelsBelow, errGuard},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, name)
			require.Error(t, err)
			for _, one := range want {
				assert.ErrorIs(t, err, one)
			}
		})
	}
	_, err := load(t, "invalid_rest")
	assert.ErrorContains(t, err, `label "continuum.x": the name is reserved`)
	_, err = load(t, "invalid_key")
	assert.ErrorContains(t, err, "modes")
}
