// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/liveness"
	"github.com/ikhnos/continuum/control/operators"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestOperatorState(t *testing.T) {
	good := &ledger.Entry{RenewBy: now.Add(time.Minute), NotAfter: now.Add(time.Hour)}
	overdue := &ledger.Entry{RenewBy: now.Add(-time.Second), NotAfter: now}
	ended := &ledger.Entry{RenewBy: now.Add(-time.Hour), NotAfter: now.Add(-time.Second)}
	long := now.Add(-settingUpFor)
	for _, tt := range []struct {
		name, health string
		state        operators.OperatorState
		created      time.Time
		receiver     *ledger.Entry
		want         string
	}{
		{"online", liveness.StateOnline, operators.OperatorActive, long, good, liveness.StateOnline},
		{"online without a certificate", liveness.StateOnline, operators.OperatorActive, long, nil, liveness.StateOnline},
		{"offline before overdue", liveness.StateOffline, operators.OperatorActive, long, overdue, liveness.StateOffline},
		{"overdue", liveness.StateOnline, operators.OperatorActive, long, overdue, liveness.StatusRenewalFailing},
		{"ended before offline", liveness.StateOffline, operators.OperatorActive, long, ended, liveness.StatusExpired},
		{"revoked before all", liveness.StateOffline, operators.OperatorRevoked, long, ended, liveness.StatusRevoked},
		{"no certificate", liveness.StateUnknown, operators.OperatorActive, now, nil, liveness.StatusNotEnrolled},
		{"its first hour", liveness.StateUnknown, operators.OperatorActive, now.Add(-59 * time.Minute), good, statusSettingUp}, // HS-9
		{"never heard", liveness.StateUnknown, operators.OperatorActive, long, good, liveness.StatusNotMeasured},
	} {
		t.Run(tt.name, func(t *testing.T) {
			op := &operators.Operator{State: tt.state, CreatedAt: tt.created, Health: &operators.Health{State: tt.health}}
			require.Equal(t, tt.want, operatorState(op, tt.receiver, now))
		})
	}
}

// Every word of the API has a shape, a word and a tone.
func TestLooks(t *testing.T) {
	words := append([]string{liveness.StateOnline, liveness.StateOffline, liveness.StateUnknown, statusSettingUp}, liveness.Statuses...)
	for _, state := range attentionStates {
		require.NotEmpty(t, worst(state), state)
		words = append(words, state)
	}
	for _, word := range words {
		l, ok := looks[word]
		require.True(t, ok, word)
		require.NotEmpty(t, l.Word)
		require.NotEmpty(t, l.Shape)
		require.Contains(t, tones, l.Tone)
	}
	require.Equal(t, look{"new_word", "–", toneQuiet}, lookOf("new_word"))
}

func TestLength(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 s", 59 * time.Second: "59 s", time.Minute: "1 min", 47 * time.Hour: "47 h", 48 * time.Hour: "2 d", 5 * 366 * 24 * time.Hour: "5 years",
	} {
		require.Equal(t, want, length(d))
	}
	require.Equal(t, "now", ago(now, now))
	require.Equal(t, "5 min ago", ago(now.Add(-5*time.Minute), now))
	require.Equal(t, "ended 5 min ago", until(now.Add(-5*time.Minute), now))
	require.Equal(t, "in 30 d", until(now.Add(30*24*time.Hour), now))
}
