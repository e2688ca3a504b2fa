// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package continuumidentity

import (
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/ikhnos/continuum/internal/identity"
)

// renamedPrefix goes in front of a label below the resource with LabelsRename.
const renamedPrefix = "exported."

// noKeys and noLabels are for a cleaner without labels.
var (
	noKeys   identity.KeySet
	noLabels = [2]*identity.KeySet{&noKeys, &noKeys}
)

// cleaner takes out of maps what must not stand there. It only reads a map in
// which nothing does.
type cleaner struct {
	reserved *identity.Reserved  // never nil
	labels   [2]*identity.KeySet // never nil
	rename   bool                // labels, instead of removing them
}

// clean cleans one map and returns how many attributes it removed. Maps inside
// values are data, except under a key that a flattening store leaves out of the
// flat name.
func (c *cleaner) clean(m pcommon.Map) (removed int64) {
	if c.finds(m) {
		return c.scrub(m)
	}
	return 0
}

// finds reports whether clean may have to change a map.
func (c *cleaner) finds(m pcommon.Map) bool {
	if c.labels == noLabels { // the usual case, and twice as fast
		reserved := c.reserved
		for key, value := range m.All() {
			if reserved.May(key) && (reserved.Has(key) || isTransparent(key, value)) {
				return true
			}
		}
		return false
	}
	for key, value := range m.All() {
		if c.may(key) && c.hit(key, value) {
			return true
		}
	}
	return false
}

func (c *cleaner) may(key string) bool {
	return c.reserved.May(key) || c.labels[0].May(key) || c.labels[1].May(key)
}

func (c *cleaner) hit(key string, value pcommon.Value) bool {
	return c.reserved.Has(key) || c.isLabel(key) || isTransparent(key, value)
}

func (c *cleaner) isLabel(key string) bool { return c.labels[0].Has(key) || c.labels[1].Has(key) }

// isTransparent reports whether the members of a value look, in a store that
// flattens maps, as if they stood beside it.
func isTransparent(key string, value pcommon.Value) bool {
	return identity.IsBlank(key) && value.Type() == pcommon.ValueTypeMap
}

// scrub removes, or renames, what clean found.
func (c *cleaner) scrub(m pcommon.Map) (removed int64) {
	type renamed struct {
		key   string
		value pcommon.Value
	}
	var moved []renamed
	m.RemoveIf(func(key string, value pcommon.Value) bool {
		switch {
		case c.reserved.Has(key):
		case c.isLabel(key):
			if c.rename {
				kept := pcommon.NewValueEmpty()
				value.MoveTo(kept)
				moved = append(moved, renamed{renamedPrefix + key, kept})
				return true
			}
		case isTransparent(key, value):
			removed += c.clean(value.Map())
			return false
		default:
			return false
		}
		removed++
		return true
	})
	for _, r := range moved {
		for has(m, r.key) {
			r.key = renamedPrefix + r.key
		}
		r.value.MoveTo(m.PutEmpty(r.key))
	}
	return removed
}
