// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package continuumidentity

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// fullProfiles has attributes at every level that a profile has: a profile, a
// sample, a mapping and a location that point at every row of the table, whose
// row i has the i-th key, and the maps of a resource and a scope.
func fullProfiles(t testing.TB, attrs []kv) pprofile.Profiles {
	pd := pprofile.NewProfiles()
	dictionary := pd.Dictionary()
	dictionary.StringTable().Append("")
	for _, a := range attrs {
		row := dictionary.AttributeTable().AppendEmpty()
		row.SetKeyStrindex(int32(dictionary.StringTable().Len()))
		dictionary.StringTable().Append(a.key)
		require.NoError(t, row.Value().FromRaw(a.value))
	}
	rp := pd.ResourceProfiles().AppendEmpty()
	fill(t, rp.Resource().Attributes(), attrs...)
	sp := rp.ScopeProfiles().AppendEmpty()
	fill(t, sp.Scope().Attributes(), attrs...)
	sp.Profiles().AppendEmpty().Samples().AppendEmpty()
	dictionary.MappingTable().AppendEmpty()
	dictionary.LocationTable().AppendEmpty()
	visitIndices(pd, func(indices pcommon.Int32Slice) {
		for i := range len(attrs) {
			indices.Append(int32(i))
		}
	})
	return pd
}

func visitIndices(pd pprofile.Profiles, f func(pcommon.Int32Slice)) {
	for _, rp := range pd.ResourceProfiles().All() {
		for _, sp := range rp.ScopeProfiles().All() {
			for _, profile := range sp.Profiles().All() {
				f(profile.AttributeIndices())
				for _, sample := range profile.Samples().All() {
					f(sample.AttributeIndices())
				}
			}
		}
	}
	for _, mapping := range pd.Dictionary().MappingTable().All() {
		f(mapping.AttributeIndices())
	}
	for _, location := range pd.Dictionary().LocationTable().All() {
		f(location.AttributeIndices())
	}
}

func TestProfiles(t *testing.T) {
	pd := fullProfiles(t, []kv{{"a", "1"}, {"continuum.org.id", "org1"}, {"b", "2"}, {"Continuum_x", "y"}, {"vm_account_id", 1},
		{"region", "kept"}, {"_", map[string]any{"continuum.x": 1}}, {"_", map[string]any{"c": 1}}, {"n", map[string]any{"continuum.x": 1}}})
	table := pprofile.NewKeyValueAndUnitSlice()
	pd.Dictionary().AttributeTable().CopyTo(table)
	names := pd.Dictionary().StringTable().AsRaw()
	sink := new(consumertest.ProfilesSink)
	require.NoError(t, newProfiles(t, senderConfig(ModeStamp), sink).ConsumeProfiles(as(clusterSender()), pd))
	got := sink.AllProfiles()[0]
	visited := 0
	visitIndices(got, func(indices pcommon.Int32Slice) {
		visited++
		assert.Equal(t, []int32{0, 2, 5, 7, 8}, indices.AsRaw())
	})
	assert.Equal(t, 4, visited)
	assert.Equal(t, names, got.Dictionary().StringTable().AsRaw(), "the dictionary stays")
	assert.Equal(t, table.Len(), got.Dictionary().AttributeTable().Len())
	for i, row := range got.Dictionary().AttributeTable().All() {
		assert.True(t, row.Equal(table.At(i)))
	}
	rp := got.ResourceProfiles().At(0)
	org, _ := rp.Resource().Attributes().Get("continuum.org.id")
	assert.Equal(t, "org1", org.Str())
	assert.Equal(t, []kv{{"a", "1"}, {"b", "2"}, {"region", "kept"}, {"_", map[string]any{}}, {"_", map[string]any{"c": int64(1)}},
		{"n", map[string]any{"continuum.x": int64(1)}}}, list(rp.ScopeProfiles().At(0).Scope().Attributes()))
}

func TestProfilesLabelsBelow(t *testing.T) {
	for _, how := range []LabelsBelow{LabelsRemove, LabelsRename} { // the key is the dictionary's
		cfg := senderConfig(ModeStamp)
		cfg.LabelsBelow = how
		sink := new(consumertest.ProfilesSink)
		require.NoError(t, newProfiles(t, cfg, sink).ConsumeProfiles(as(clusterSender()), fullProfiles(t, []kv{{"region", "x"}, {"a", "1"}})))
		visitIndices(sink.AllProfiles()[0], func(indices pcommon.Int32Slice) { assert.Equal(t, []int32{1}, indices.AsRaw()) })
	}
}

// An exporter appends what was stamped to the string table. A reference past the
// end of the table would then become that key.
func TestProfilesReferencesPastTheEnd(t *testing.T) {
	pd := fullProfiles(t, []kv{{"a", "1"}, {"b", "2"}, {"", "forged"}})
	pd.Dictionary().AttributeTable().At(1).SetKeyStrindex(4)
	pd.Dictionary().MappingTable().At(0).AttributeIndices().Append(3, -1)
	sink := new(consumertest.ProfilesSink)
	require.NoError(t, newProfiles(t, senderConfig(ModeStamp), sink).ConsumeProfiles(as(clusterSender()), pd))
	got := sink.AllProfiles()[0]
	visitIndices(got, func(indices pcommon.Int32Slice) { assert.Equal(t, []int32{0, 2}, indices.AsRaw()) })

	wire, err := (&pprofile.ProtoMarshaler{}).MarshalProfiles(got)
	require.NoError(t, err)
	next, err := (&pprofile.ProtoUnmarshaler{}).UnmarshalProfiles(wire)
	require.NoError(t, err)
	resource := list(next.ResourceProfiles().At(0).Resource().Attributes())
	assert.Equal(t, after([]kv{{"a", "1"}, {"b", "2"}}, ofC1), resource)
	assert.Equal(t, []kv{{"a", "1"}, {"b", "2"}}, list(next.ResourceProfiles().At(0).ScopeProfiles().At(0).Scope().Attributes()))
}

func TestProfilesEnforce(t *testing.T) {
	p := newProfiles(t, senderConfig(ModeEnforce), consumertest.NewNop())
	assert.Error(t, p.ConsumeProfiles(as(clusterSender()), fullProfiles(t, []kv{{"continuum.cluster.id", "c2"}})))
	assert.Error(t, p.ConsumeProfiles(t.Context(), fullProfiles(t, nil)))
	require.NoError(t, p.ConsumeProfiles(as(clusterSender()), pprofile.NewProfiles()))
}

func TestProfilesOperator(t *testing.T) {
	sink := new(consumertest.ProfilesSink)
	p := newProfiles(t, operatorConfig(), sink)
	require.NoError(t, p.ConsumeProfiles(t.Context(), fullProfiles(t, []kv{{"continuum.org.id", "x"}})))
	assert.Equal(t, after([]kv{{"continuum.org.id", "x"}}, ofOperator), list(sink.AllProfiles()[0].ResourceProfiles().At(0).Resource().Attributes()))
	visitIndices(sink.AllProfiles()[0], func(indices pcommon.Int32Slice) { assert.Equal(t, []int32{0}, indices.AsRaw()) })
}
