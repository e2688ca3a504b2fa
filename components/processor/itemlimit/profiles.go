// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package itemlimit

import (
	"context"

	"go.opentelemetry.io/collector/pdata/pprofile"
)

var profileSizer pprofile.ProtoMarshaler

func (l *itemLimit) profiles(ctx context.Context, pd pprofile.Profiles) (pprofile.Profiles, error) {
	before := pd.SampleCount()
	pd.ResourceProfiles().RemoveIf(l.resourceProfiles)
	return pd, l.end(ctx, before-pd.SampleCount(), pd.ResourceProfiles().Len())
}

// resourceProfiles reports whether nothing of a resource may stay. Further down, around
// is the size of a part and of what it stands in, until the items are taken off.
func (l *itemLimit) resourceProfiles(rp pprofile.ResourceProfiles) bool {
	around := profileSizer.ResourceProfilesSize(rp)
	if around <= l.max {
		return false
	}
	scopes := rp.ScopeProfiles()
	before := scopes.Len()
	sizes := make([]int, before)
	for i := range sizes {
		sizes[i] = profileSizer.ScopeProfilesSize(scopes.At(i))
		around -= framed(sizes[i])
	}
	scopes.RemoveIf(func(sp pprofile.ScopeProfiles) bool {
		size := sizes[0]
		sizes = sizes[1:]
		return l.scopeProfiles(sp, around+size)
	})
	return around > l.maxAround || before > 0 && scopes.Len() == 0
}

func (l *itemLimit) scopeProfiles(sp pprofile.ScopeProfiles, around int) bool {
	if around <= l.max {
		return false
	}
	before := sp.Profiles().Len()
	sp.Profiles().RemoveIf(func(profile pprofile.Profile) bool {
		size := profileSizer.ProfileSize(profile)
		around -= framed(size)
		return size > l.max
	})
	return around > l.maxAround || before > 0 && sp.Profiles().Len() == 0
}
