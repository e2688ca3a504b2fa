// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package continuumidentity

import (
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/ikhnos/continuum/internal/identity"
)

// resource verifies and stamps one resource. It returns false when the resource
// is to be dropped, and then notes why and how many items go with it.
func (ps *pass) resource(m pcommon.Map, items func() int) bool {
	switch {
	case ps.rules != nil:
		if why := ps.verify(m); why != reasonNone {
			ps.dropped[why] = true
			ps.counts.refused[why] += int64(items())
			return false
		}
	case ps.mode == ModeOff:
		ps.stripOnly(m)
	}
	if ps.operator != nil {
		ps.stampOperator(m)
	}
	return true
}

// verify applies the rules of the sender. It returns a reason when the resource
// is to be dropped.
func (ps *pass) verify(m pcommon.Map) reason {
	var said claims
	labels := ps.rules.labels
	dirty := false
	for key, value := range m.All() {
		switch {
		case !ps.reserved.May(key) && !labels.May(key):
		case ps.reserved.Has(key):
			dirty = true
			said.add(key, value)
		case labels.Has(key):
			dirty = true
		case isTransparent(key, value):
			ps.removeInside(value.Map(), ps.reserved, labels)
		}
	}
	v := ps.rules.judge(&said)
	ps.note(&v)
	switch {
	case v.reason != reasonNone && ps.mode == ModeEnforce:
		return v.reason
	case dirty:
		ps.stampOver(m, v.stamp, said.intent())
	default:
		put(m, v.stamp)
	}
	return reasonNone
}

// note counts the conflicts of one resource.
func (ps *pass) note(v *verdict) {
	for key, done := range v.actions {
		if done != actionNone && ps.mode == ModeEnforce {
			done = actionDropped
		}
		if done != actionNone {
			ps.counts.conflicts[key][done]++
		}
	}
}

// stampOver leaves of all reserved keys and labels only what is stamped, and the
// intent if there is one.
func (ps *pass) stampOver(m pcommon.Map, stamp []attr, intent string) {
	var buffer [24]attr
	want := appendSet(append(buffer[:0], stamp...), identity.KeyIntentID, intent)
	covers := func(key string) bool { return ps.reserved.Has(key) || ps.rules.labels.Has(key) }
	ps.counts.removed[levelResource] += rewrite(m, covers, want)
}

// stripOnly keeps the five identity keys as they were sent and removes every
// other reserved key.
func (ps *pass) stripOnly(m pcommon.Map) {
	forged := func(key string) bool { return ps.reserved.Has(key) && !isIdentityKey(key) }
	dirty := false
	for key, value := range m.All() {
		switch {
		case !ps.reserved.May(key):
		case forged(key):
			dirty = true
		case isTransparent(key, value):
			ps.removeInside(value.Map(), ps.reserved, &noKeys)
		}
	}
	if dirty {
		before := m.Len()
		m.RemoveIf(func(key string, _ pcommon.Value) bool { return forged(key) })
		ps.counts.removed[levelResource] += int64(before - m.Len())
	}
}

func isIdentityKey(key string) bool {
	switch key {
	case identity.KeyOrgID, identity.KeyClusterID, identity.KeyIntentID, identity.KeyOperatorID, identity.KeyOperatorName:
		return true
	}
	return false
}

// stampOperator writes what the collector calls itself.
func (ps *pass) stampOperator(m pcommon.Map) {
	op := ps.operator
	dirty := false
	for key, value := range m.All() {
		switch {
		case !op.keys.May(key):
		case op.keys.Has(key):
			dirty = true
		case isTransparent(key, value):
			ps.removeInside(value.Map(), &reservesNothing, op.keys)
		}
	}
	if dirty {
		ps.counts.removed[levelResource] += rewrite(m, op.keys.Has, op.attrs)
	} else {
		put(m, op.attrs)
	}
}

var reservesNothing identity.Reserved

// removeInside removes keys from a map that a flattening store takes for a part
// of the resource.
func (ps *pass) removeInside(m pcommon.Map, reserved *identity.Reserved, labels *identity.KeySet) {
	c := cleaner{reserved: reserved, labels: [2]*identity.KeySet{labels, &noKeys}}
	ps.counts.removed[levelResource] += c.clean(m)
}
