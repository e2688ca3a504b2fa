// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package continuumidentity

import (
	"context"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

func (p *identityProcessor) profiles(ctx context.Context, pd pprofile.Profiles) (pprofile.Profiles, error) {
	ps, err := p.begin(ctx, pd.SampleCount())
	if err != nil {
		return pd, err
	}
	var rows forbiddenRows
	if !ps.skipsBelow() {
		rows = ps.forbiddenRows(pd.Dictionary())
		ps.dictionary(pd.Dictionary(), rows)
	}
	pd.ResourceProfiles().RemoveIf(func(rp pprofile.ResourceProfiles) bool {
		if ps.mode != "" {
			ps.dropUnresolved(rp.Resource().Attributes(), levelResource)
		}
		if !ps.resource(rp.Resource().Attributes(), func() int { return sampleCount(rp) }) {
			return true
		}
		if !ps.skipsBelow() {
			ps.scopeProfiles(rp.ScopeProfiles(), rows)
		}
		return false
	})
	return pd, ps.end(ctx, pd.SampleCount)
}

// forbiddenRows tells which rows of an attribute table nothing may point to.
type forbiddenRows struct {
	length int
	rows   []bool // by index; nil: none of them
}

// has is true for an index outside of the table as well: another hop could append
// to the table and give it a meaning.
func (f forbiddenRows) has(index int32) bool {
	return index < 0 || int(index) >= f.length || f.rows != nil && f.rows[index]
}

// forbiddenRows looks once through the table that all profiles of a request
// share. A key that is not in the string table is forbidden, because exporters
// append to that table what was stamped.
func (ps *pass) forbiddenRows(dictionary pprofile.ProfilesDictionary) forbiddenRows {
	table, names := dictionary.AttributeTable(), dictionary.StringTable()
	f := forbiddenRows{length: table.Len()}
	for i := range table.Len() {
		key := table.At(i).KeyStrindex()
		if key >= 0 && int(key) < names.Len() && !ps.forbids(names.At(int(key)), table.At(i).Value()) {
			continue
		}
		if f.rows == nil {
			f.rows = make([]bool, table.Len())
		}
		f.rows[i] = true
	}
	return f
}

// forbids reports whether an attribute must not stand in a profile. A label is
// never renamed there, since its key belongs to the shared dictionary.
func (ps *pass) forbids(key string, value pcommon.Value) bool {
	if !ps.cleaner.may(key) || !ps.cleaner.hit(key, value) {
		return false
	}
	return !isTransparent(key, value) || ps.cleaner.finds(value.Map())
}

// dictionary cleans the rows that profiles share and that carry attributes
// themselves. Rows are neither removed nor moved.
func (ps *pass) dictionary(dictionary pprofile.ProfilesDictionary, rows forbiddenRows) {
	for i := range dictionary.MappingTable().Len() {
		ps.indices(dictionary.MappingTable().At(i).AttributeIndices(), rows)
	}
	for i := range dictionary.LocationTable().Len() {
		ps.indices(dictionary.LocationTable().At(i).AttributeIndices(), rows)
	}
}

func (ps *pass) scopeProfiles(scopes pprofile.ScopeProfilesSlice, rows forbiddenRows) {
	for i := range scopes.Len() {
		scope := scopes.At(i)
		if ps.mode != "" {
			ps.dropUnresolved(scope.Scope().Attributes(), levelScope)
		}
		ps.clean(scope.Scope().Attributes(), levelScope)
		for j := range scope.Profiles().Len() {
			profile := scope.Profiles().At(j)
			ps.indices(profile.AttributeIndices(), rows)
			for k := range profile.Samples().Len() {
				ps.indices(profile.Samples().At(k).AttributeIndices(), rows)
			}
		}
	}
}

func (ps *pass) indices(indices pcommon.Int32Slice, rows forbiddenRows) {
	for i := range indices.Len() {
		if rows.has(indices.At(i)) {
			before := indices.Len()
			indices.RemoveIf(rows.has)
			ps.counts.removed[levelProfile] += int64(before - indices.Len())
			return
		}
	}
}

// dropUnresolved removes attributes without a key. In profiles that is how a
// reference shows that points past the end of the string table; exporters append
// to the table, and the next hop would read there a key of ours.
func (ps *pass) dropUnresolved(m pcommon.Map, at level) {
	if has(m, "") {
		before := m.Len()
		m.RemoveIf(func(key string, _ pcommon.Value) bool { return key == "" })
		ps.counts.removed[at] += int64(before - m.Len())
	}
}

func sampleCount(rp pprofile.ResourceProfiles) (n int) {
	for i := range rp.ScopeProfiles().Len() {
		profiles := rp.ScopeProfiles().At(i).Profiles()
		for j := range profiles.Len() {
			n += profiles.At(j).Samples().Len()
		}
	}
	return n
}
