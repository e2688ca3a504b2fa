// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package identityguard

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/confmaptest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

var update = flag.Bool("update", false, "write the texts of testdata/matrix anew")

// trap-12, case-34, case-46: every configuration of the matrix is refused with
// exactly its text, or not at all.
func TestMatrix(t *testing.T) {
	files, err := filepath.Glob("testdata/matrix/*.yaml")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 30)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			conf, err := confmaptest.LoadConf(file)
			require.NoError(t, err)
			core, logs := observer.New(zap.WarnLevel)
			err = Enforce(conf.ToStringMap(), Written, zap.New(core))
			text := ""
			if err != nil {
				text = err.Error() + "\n"
			}
			assert.Equal(t, strings.HasPrefix(name, "ok-"), err == nil, text)
			golden := strings.TrimSuffix(file, ".yaml") + ".txt"
			if *update && text != "" {
				require.NoError(t, os.WriteFile(golden, []byte(text), 0o600))
			}
			if text != "" {
				want, err := os.ReadFile(golden)
				require.NoError(t, err)
				assert.Equal(t, string(want), text)
			}
			assert.Equal(t, name == "ok-mode-warn", logs.Len() > 0)
		})
	}
}

// A collector that can load receivers again by itself is past every check.
func TestPartialReload(t *testing.T) {
	conf, err := confmaptest.LoadConf("testdata/matrix/ok-regional.yaml")
	require.NoError(t, err)
	found := Check(conf.ToStringMap(), Written, true)
	require.Len(t, found.Problems, 1)
	assert.Equal(t, `receiver "otlp" in pipeline "traces": receivers can be loaded again without this check; switch the feature gate service.partialReload off`,
		found.Problems[0].String())
	assert.False(t, partialReload(), "both gates are needed")
}

// The two forms differ in what nothing means.
func TestForms(t *testing.T) {
	conf := func(grpc any) map[string]any {
		return map[string]any{
			"extensions": map[string]any{"certnameauth": map[string]any{}},
			"receivers":  map[string]any{" otlp / in": map[string]any{"protocols": map[string]any{"grpc": grpc}}},
			"processors": map[string]any{"continuumidentity": map[string]any{"sender": map[string]any{"mode": "stamp"}, "operator": nil}},
			"service": map[string]any{
				"extensions": "certnameauth",
				"pipelines": map[string]any{"traces": map[string]any{
					"receivers": []string{"otlp/in"}, "processors": "continuumidentity", "exporters": []any{"nop"}}},
			},
		}
	}
	assert.Len(t, Check(conf(nil), Written, false).Problems, 2)
	assert.Empty(t, Check(conf(nil), FromCollector, false).Problems)
	assert.Len(t, Check(conf(map[string]any{}), FromCollector, false).Problems, 2)
	assert.Empty(t, Check(conf(map[string]any{"enabled": false}), Written, false).Problems)
}

// FuzzCheck: any configuration at all gives an answer.
func FuzzCheck(f *testing.F) {
	files, _ := filepath.Glob("testdata/matrix/*.yaml")
	for _, file := range files {
		data, _ := os.ReadFile(file)
		f.Add(data)
	}
	f.Fuzz(func(_ *testing.T, data []byte) {
		retrieved, err := confmap.NewRetrievedFromYAML(data)
		if err != nil {
			return
		}
		if conf, err := retrieved.AsConf(); err == nil {
			Check(conf.ToStringMap(), Written, true)
			Check(conf.ToStringMap(), FromCollector, false)
		}
	})
}
