// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package liveness

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestHealth: HS-1 to HS-5.
func TestHealth(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) *time.Time {
		at := now.Add(-d)
		return &at
	}
	for name, tc := range map[string]struct {
		minted, revoked bool
		seen            *time.Time
		state           string
		reporting       bool
	}{
		"no secret":             {false, false, nil, StateUnknown, false},
		"never heard":           {true, false, nil, StateUnknown, false},
		"just heard":            {true, false, ago(0), StateOnline, true},
		"at the end of window":  {true, false, ago(180 * time.Second), StateOnline, true},
		"past the window":       {true, false, ago(181 * time.Second), StateOffline, true},
		"revoked after a beat":  {true, true, ago(0), StateOffline, true},
		"revoked, never heard":  {true, true, nil, StateUnknown, false},
		"clock of server moved": {true, false, ago(-time.Minute), StateOnline, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := healthOf(tc.minted, tc.revoked, tc.seen, now)
			assert.Equal(t, &operators.Health{State: tc.state, LastSeenAt: tc.seen, Reporting: tc.reporting}, h)
		})
	}
}

// TestDescribe: one sender, one word, the worst first.
func TestDescribe(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) *time.Time {
		t := now.Add(d)
		return &t
	}
	good := leaf{notAfter: now.Add(time.Hour), renewBy: now.Add(time.Minute)}
	overdue := leaf{notAfter: now.Add(time.Hour), renewBy: now.Add(-time.Minute)}
	ended := leaf{notAfter: now.Add(-time.Second), renewBy: now.Add(-time.Minute)}
	turnedDown := leaf{notAfter: now.Add(time.Hour), renewBy: now.Add(time.Minute), refused: string(controlapi.ReasonClockSkew)}
	for name, tc := range map[string]struct {
		want      string
		state     controlapi.SenderState
		reporting bool
		leaf      *leaf
		accepted  *time.Time
		refused   bool
	}{
		"active":            {StatusActive, "allowed", true, &good, at(-time.Minute), false},
		"held":              {StatusRevoked, "held", true, &good, at(-time.Minute), false},
		"revoked":           {StatusRevoked, "revoked", false, nil, nil, false},
		"operator is quiet": {StatusNotMeasured, "allowed", false, &good, at(-time.Minute), false},
		"ended":             {StatusExpired, "allowed", true, &ended, at(-time.Hour), false},
		"silent":            {StatusSilent, "allowed", true, &overdue, at(-6 * time.Minute), true},
		"refused":           {StatusRefused, "allowed", true, &overdue, at(-time.Minute), true},
		"overdue":           {StatusRenewalFailing, "allowed", true, &overdue, at(-time.Minute), false},
		"attempt refused":   {StatusRenewalFailing, "allowed", true, &turnedDown, at(-time.Minute), false},
		"waiting":           {StatusWaiting, "allowed", true, &good, nil, false},
		"not enrolled":      {StatusNotEnrolled, "allowed", true, nil, nil, false},
		"let in again":      {StatusNotEnrolled, "allowed", true, nil, at(-time.Minute), false},
	} {
		t.Run(name, func(t *testing.T) {
			o := &observed{reporting: tc.reporting, leaves: map[string]leaf{}, reports: map[string]*SenderStatus{"s": {LastAcceptedAt: tc.accepted, refusedLast: tc.refused}}}
			if tc.leaf != nil {
				o.leaves["s"] = *tc.leaf
			}
			got := o.describe(operators.Sender{Name: "s", State: tc.state}, 5*time.Minute, now)
			assert.Equal(t, tc.want, got.Status)
			assert.Contains(t, Statuses, got.Status)
		})
	}
}
