// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package continuumidentity

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer/xconsumer"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/xpdata"
)

type xconsumerProfiles = xconsumer.Profiles

// kv is one attribute; any value that pcommon takes.
type kv struct {
	key   string
	value any
}

// fill appends attributes to a map as they come from the wire: in order,
// duplicates included.
func fill(t testing.TB, m pcommon.Map, attrs ...kv) {
	var b xpdata.MapBuilder
	b.EnsureCapacity(m.Len() + len(attrs))
	for key, value := range m.All() {
		value.CopyTo(b.AppendEmpty(key))
	}
	for _, a := range attrs {
		require.NoError(t, b.AppendEmpty(a.key).FromRaw(a.value))
	}
	b.UnsafeIntoMap(m)
}

// list is what a map holds, in order.
func list(m pcommon.Map) []kv {
	out := []kv{}
	for key, value := range m.All() {
		out = append(out, kv{key, value.AsRaw()})
	}
	return out
}
