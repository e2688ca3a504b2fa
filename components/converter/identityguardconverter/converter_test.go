// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package identityguardconverter

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func conf(mode string) *confmap.Conf {
	return confmap.NewFromStringMap(map[string]any{
		"extensions": map[string]any{"certnameauth": map[string]any{"guard": map[string]any{"mode": mode}}},
		"receivers":  map[string]any{"otlp": map[string]any{"protocols": map[string]any{"grpc": nil}}},
		"service": map[string]any{
			"extensions": []any{"certnameauth"},
			"pipelines":  map[string]any{"traces": map[string]any{"receivers": []any{"otlp"}, "exporters": []any{"nop"}}},
		},
	})
}

func TestConverter(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	c := NewFactory().Create(confmap.ConverterSettings{Logger: zap.New(core)})

	err := c.Convert(t.Context(), conf("enforce"))
	require.ErrorContains(t, err, `receiver "otlp" in pipeline "traces": protocol grpc has no certnameauth`)
	assert.Empty(t, logs.All())

	require.NoError(t, c.Convert(t.Context(), conf("warn")))
	assert.Equal(t, 3, logs.Len(), "no certnameauth, no client CA, no continuumidentity")

	before := conf("off")
	require.NoError(t, c.Convert(t.Context(), before))
	assert.Equal(t, conf("off").ToStringMap(), before.ToStringMap(), "it changes nothing")
	require.NoError(t, c.Convert(t.Context(), confmap.New()))
}
