// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package continuumidentity

import (
	"maps"
	"slices"

	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/identity"
)

// attr is one string attribute to write.
type attr struct{ key, value string }

// origin is where data comes from.
type origin struct{ orgID, clusterID string }

// rules are what one sender may say and what is written for it, worked out once
// per sender. They are immutable.
type rules struct {
	sender     string // name, for metrics and logs
	isOperator bool
	own        origin // of a cluster
	operatorID string // of an operator

	stamp   []attr              // for the sender's own data
	vouched map[origin][]attr   // of an operator: the same for each origin it may relay
	orgs    map[string]struct{} // organisations in vouched
	labels  *identity.KeySet    // every label that stamp or vouched may write
}

// newRules returns nil for a sender that does not say who it is.
func newRules(s *identity.Sender) *rules {
	r := &rules{sender: s.Name}
	switch {
	case s.Kind == controlapi.KindCluster && s.ClusterID != "":
		r.own = origin{s.OrgID, s.ClusterID}
		r.stamp = appendLabels(originAttrs(r.own), s.Labels, nil)
		r.labels = identity.NewKeySet(slices.Collect(maps.Keys(s.Labels))...)
	case s.Kind == controlapi.KindOperator && s.OperatorID != "":
		r.isOperator, r.operatorID = true, s.OperatorID
		r.vouchFor(s)
	default:
		return nil
	}
	return r
}

// vouchFor works out what is written for each origin that an operator may relay:
// the origin's labels, and over them everything of the operator.
func (r *rules) vouchFor(s *identity.Sender) {
	names := slices.Collect(maps.Keys(s.Labels))
	operatorLabels := identity.NewKeySet(names...)
	r.stamp = appendLabels(operatorAttrs(s.OperatorID, s.OperatorName), s.Labels, nil)
	r.vouched = make(map[origin][]attr, len(s.Vouches))
	r.orgs = make(map[string]struct{})
	for _, vouch := range s.Vouches {
		from := origin{vouch.OrgID, vouch.ClusterID}
		r.orgs[from.orgID] = struct{}{}
		r.vouched[from] = append(appendLabels(originAttrs(from), vouch.Labels, operatorLabels), r.stamp...)
		for name := range vouch.Labels {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	r.labels = identity.NewKeySet(names...)
}

// originAttrs are the attributes of a cluster, without an empty one.
func originAttrs(o origin) []attr {
	return appendSet(appendSet(nil, identity.KeyOrgID, o.orgID), identity.KeyClusterID, o.clusterID)
}

// operatorAttrs are the attributes of an operator, without an empty one.
func operatorAttrs(id, name string) []attr {
	return appendSet(appendSet(nil, identity.KeyOperatorID, id), identity.KeyOperatorName, name)
}

func appendSet(attrs []attr, key, value string) []attr {
	if value == "" {
		return attrs
	}
	return append(attrs, attr{key, value})
}

// appendLabels appends labels in the order of their names, without those that a
// store would take for one of except, for one before, or for an identity.
func appendLabels(attrs []attr, labels map[string]string, except *identity.KeySet) []attr {
	seen := make(map[string]bool, len(labels))
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		form := identity.NormalForm(name)
		if form == "" || seen[form] || identity.IsContinuum(name) || except != nil && except.Has(name) {
			continue
		}
		seen[form] = true
		attrs = appendSet(attrs, name, labels[name])
	}
	return attrs
}
