// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package itemlimit

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/confmaptest"
)

func TestConfig(t *testing.T) {
	file, err := confmaptest.LoadConf("testdata/config.yaml")
	require.NoError(t, err)
	for name, want := range map[string]int{"itemlimit": 1048576, "itemlimit/small": 65536, "itemlimit/zero": 0, "itemlimit/negative": -1} {
		sub, err := file.Sub(name)
		require.NoError(t, err)
		cfg := createDefaultConfig().(*Config)
		require.NoError(t, sub.Unmarshal(cfg))
		assert.Equal(t, want, cfg.MaxItemBytes)
		if want > 0 {
			assert.NoError(t, confmap.Validate(cfg), name)
		} else {
			assert.ErrorIs(t, confmap.Validate(cfg), errMaxItemBytes, name)
		}
	}
}
