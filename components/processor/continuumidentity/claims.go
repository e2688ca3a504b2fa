// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package continuumidentity

import (
	"unicode/utf8"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/ikhnos/continuum/internal/identity"
)

// maxIntentLength is in characters.
const maxIntentLength = 63

// claim is what a resource says under one exact key, all duplicates together.
type claim struct {
	value string // empty: absent
	bad   bool   // not one string
}

// add takes one attribute into account. An empty string says nothing.
func (c *claim) add(v pcommon.Value) {
	if v.Type() != pcommon.ValueTypeStr {
		c.bad = true
		return
	}
	if s := v.Str(); s != "" {
		c.bad = c.bad || c.value != "" && c.value != s
		c.value = s
	}
}

func (c *claim) absent() bool { return c.value == "" && !c.bad }

// agrees reports whether the claim says nothing but own.
func (c *claim) agrees(own string) bool { return !c.bad && (c.value == "" || c.value == own) }

// claims are the claims of one resource.
type claims struct{ orgID, clusterID, operatorID, intentID claim }

// add takes a reserved attribute into account. Only the exact key is a claim.
func (c *claims) add(key string, v pcommon.Value) {
	switch key {
	case identity.KeyOrgID:
		c.orgID.add(v)
	case identity.KeyClusterID:
		c.clusterID.add(v)
	case identity.KeyOperatorID:
		c.operatorID.add(v)
	case identity.KeyIntentID:
		c.intentID.add(v)
	}
}

// intent returns the intent of a resource, empty when it has none that may stay.
func (c *claims) intent() string {
	id := &c.intentID
	if id.bad || !utf8.ValidString(id.value) || utf8.RuneCountInString(id.value) > maxIntentLength {
		return ""
	}
	return id.value
}

// action is what became of a claim, or of its resource. It indexes counts.conflicts.
type action int

const (
	actionNone action = iota
	actionDropped
	actionOverwritten
	actionRemoved
	numActions
)

// claimKey names a claim that conflicts. It indexes counts.conflicts.
type claimKey int

const (
	claimOrgID claimKey = iota
	claimClusterID
	claimOperatorID
	numClaimKeys
)

// verdict is the judgement on one resource.
type verdict struct {
	stamp   []attr               // what to write
	actions [numClaimKeys]action // what that does to a claim in conflict
	reason  reason               // of the conflict, reasonNone without one
}

// judge compares the claims of a resource with what the sender may say.
func (r *rules) judge(c *claims) verdict {
	if r.isOperator {
		return r.judgeOperator(c)
	}
	v := verdict{stamp: r.stamp}
	v.compare(claimOrgID, &c.orgID, r.own.orgID)
	v.compare(claimClusterID, &c.clusterID, r.own.clusterID)
	return v
}

func (r *rules) judgeOperator(c *claims) verdict {
	v := verdict{stamp: r.stamp}
	v.compare(claimOperatorID, &c.operatorID, r.operatorID)
	if c.orgID.absent() && c.clusterID.absent() {
		return v // the operator's own data
	}
	malformed := c.orgID.bad || c.clusterID.bad
	if stamp, ok := r.vouched[origin{c.orgID.value, c.clusterID.value}]; ok && !malformed {
		v.stamp = stamp
		return v
	}
	key := claimClusterID
	if _, ok := r.orgs[c.orgID.value]; !ok || c.orgID.bad {
		key = claimOrgID
	}
	v.actions[key] = actionRemoved
	switch {
	case malformed:
		v.reason = reasonIdentityConflict
	case v.reason == reasonNone:
		v.reason = reasonOriginNotVouched
	}
	return v
}

// compare notes a conflict unless the claim agrees with own, which is what will
// be written.
func (v *verdict) compare(key claimKey, c *claim, own string) {
	if c.agrees(own) {
		return
	}
	v.reason = reasonIdentityConflict
	v.actions[key] = actionOverwritten
	if own == "" {
		v.actions[key] = actionRemoved
	}
}
