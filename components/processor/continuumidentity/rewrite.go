// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package continuumidentity

import "go.opentelemetry.io/collector/pdata/pcommon"

// rewrite makes want the only attributes of m that covers reports, and returns
// how many it removed. An attribute that is wanted keeps its place; one that is
// missing goes to the end; all others keep their order. covers must report every
// key of want.
func rewrite(m pcommon.Map, covers func(string) bool, want []attr) (removed int64) {
	var few [32]bool
	seen := few[:]
	if len(want) > len(few) {
		seen = make([]bool, len(want))
	}
	m.RemoveIf(func(key string, _ pcommon.Value) bool {
		if !covers(key) {
			return false
		}
		for i := range want {
			if want[i].key == key && !seen[i] {
				seen[i] = true
				return false
			}
		}
		removed++
		return true
	})
	put(m, want)
	return removed
}

// put writes attributes into a map in which none of them stands twice.
func put(m pcommon.Map, attrs []attr) {
	missing := 0
	for _, a := range attrs {
		if !has(m, a.key) {
			missing++
		}
	}
	if missing > 0 {
		m.EnsureCapacity(m.Len() + missing)
	}
	for _, a := range attrs {
		if v, ok := m.Get(a.key); ok && v.Type() == pcommon.ValueTypeStr && v.Str() == a.value {
			continue
		}
		m.PutStr(a.key, a.value)
	}
}

func has(m pcommon.Map, key string) bool {
	_, ok := m.Get(key)
	return ok
}
