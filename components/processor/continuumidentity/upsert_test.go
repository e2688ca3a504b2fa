// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package continuumidentity

import (
	"context"
	"testing"

	"github.com/open-telemetry/opentelemetry-collector-contrib/processor/resourceprocessor"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor/processortest"
)

// A-29, ID-1 to ID-4: what `operator` writes is, to the byte, what `resource`
// with `action: upsert` writes, wherever no key is spelled in two ways.
func TestSameAsResourceProcessor(t *testing.T) {
	factory := resourceprocessor.NewFactory()
	cfg := factory.CreateDefaultConfig()
	require.NoError(t, confmap.NewFromStringMap(map[string]any{"attributes": []any{
		map[string]any{"action": "upsert", "key": "continuum.operator.id", "value": "op-abc"},
		map[string]any{"action": "upsert", "key": "continuum.operator.name", "value": "EU West"},
		map[string]any{"action": "upsert", "key": "region", "value": "eu-west"},
	}}).Unmarshal(cfg))
	theirs, ours := new(consumertest.TracesSink), new(consumertest.TracesSink)
	resource, err := factory.CreateTraces(context.Background(), processortest.NewNopSettings(factory.Type()), cfg, theirs)
	require.NoError(t, err)
	operator := newTraces(t, operatorConfig(), ours)
	for name, attrs := range map[string][]kv{
		"empty":             nil,
		"nothing of ours":   {{"service.name", "a"}, {"n", 1}, {"service.name", "again"}},
		"one to overwrite":  {{"a", 1}, {"continuum.operator.id", "op-old"}, {"b", 2}},
		"all to overwrite":  {{"region", "us"}, {"a", 1}, {"continuum.operator.name", 5}, {"continuum.operator.id", []any{"x"}}},
		"already there":     {{"continuum.operator.id", "op-abc"}, {"continuum.operator.name", "EU West"}, {"region", "eu-west"}},
		"identity of agent": {{"continuum.org.id", "org1"}, {"continuum.cluster.id", "c1"}, {"continuum.intent.id", "i"}}, // ID-6
	} {
		t.Run(name, func(t *testing.T) {
			theirs.Reset()
			ours.Reset()
			require.NoError(t, resource.ConsumeTraces(context.Background(), oneSpan(t, attrs...)))
			require.NoError(t, operator.ConsumeTraces(context.Background(), oneSpan(t, attrs...)))
			assert.Equal(t, bytes(t, theirs.AllTraces()[0]), bytes(t, ours.AllTraces()[0]))
		})
	}
}

// What the resource processor leaves standing: other spellings and duplicates.
func TestOperatorRemovesEverySpelling(t *testing.T) { // ID-4
	sink := new(consumertest.TracesSink)
	require.NoError(t, newTraces(t, operatorConfig(), sink).ConsumeTraces(context.Background(), oneSpan(t,
		kv{"Continuum_Operator_Id", "x"}, kv{"continuum.operator.id", "y"}, kv{"REGION", "z"}, kv{"continuum.operator.id", "z"},
		kv{"a", "b"}, kv{"", map[string]any{"region": "w"}}, kv{"continuum.org.id", "org1"})))
	assert.Equal(t, []kv{{"continuum.operator.id", "op-abc"}, {"a", "b"}, {"", map[string]any{}}, {"continuum.org.id", "org1"},
		{"continuum.operator.name", "EU West"}, {"region", "eu-west"}},
		list(sink.AllTraces()[0].ResourceSpans().At(0).Resource().Attributes()))
}

func bytes(t *testing.T, td ptrace.Traces) []byte {
	b, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(td)
	require.NoError(t, err)
	return b
}
