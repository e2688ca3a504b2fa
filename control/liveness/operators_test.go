// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package liveness

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/operators"
)

// TestJudge: one operator, one word, the worst first, and the three states of its
// certificates (HS-1 to HS-9, ST-1 to ST-4).
func TestJudge(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) *time.Time {
		t := now.Add(d)
		return &t
	}
	good := leafSpan{notAfter: at(time.Hour), renewBy: at(time.Minute)}
	overdue := leafSpan{notAfter: at(time.Hour), renewBy: at(-time.Second)}
	ended := leafSpan{notAfter: at(-time.Second), renewBy: at(-time.Hour)}
	refused := leafSpan{notAfter: at(time.Hour), renewBy: at(time.Minute), refused: true}
	heard, quiet := at(-time.Minute), at(-4*time.Minute)
	for name, tc := range map[string]struct {
		op           operators.Operator
		known        evidence
		status       string
		certificates operators.CertificateWord
	}{
		"online":                      {minted(now), evidence{lastSeen: heard, receiver: good}, StateOnline, operators.CertificateOK},
		"online without a leaf":       {minted(now), evidence{lastSeen: heard}, StateOnline, operators.CertificateNone},
		"offline before overdue":      {minted(now), evidence{lastSeen: quiet, receiver: overdue}, StateOffline, operators.CertificateRenewalFailing},
		"overdue":                     {minted(now), evidence{lastSeen: heard, receiver: overdue}, StatusRenewalFailing, operators.CertificateRenewalFailing},
		"refused":                     {minted(now), evidence{lastSeen: heard, receiver: refused}, StatusRenewalFailing, operators.CertificateRenewalFailing},
		"ended before offline":        {minted(now), evidence{lastSeen: quiet, receiver: ended}, StatusExpired, operators.CertificateExpired},
		"revoked before all":          {operators.Operator{State: operators.OperatorRevoked}, evidence{lastSeen: quiet, receiver: ended}, StatusRevoked, operators.CertificateExpired},
		"no leaf":                     {unminted(now), evidence{}, StatusNotEnrolled, operators.CertificateNone},
		"its first hour":              {unminted(now.Add(-59 * time.Minute)), evidence{receiver: good}, StatusSettingUp, operators.CertificateOK},
		"never heard":                 {unminted(now.Add(-time.Hour)), evidence{receiver: good}, StatusNotMeasured, operators.CertificateOK},
		"reports, without heartbeat":  {unminted(now.Add(-time.Hour)), evidence{lastReport: heard, receiver: good}, StateOnline, operators.CertificateOK},
		"no more reports":             {unminted(now.Add(-time.Hour)), evidence{lastReport: quiet, receiver: good}, StateOffline, operators.CertificateOK},
		"heartbeats, reports stopped": {minted(now), evidence{lastSeen: heard, lastReport: quiet, receiver: good}, StateOnline, operators.CertificateOK},
		"reports, heartbeats stopped": {minted(now), evidence{lastSeen: quiet, lastReport: heard, receiver: good}, StateOnline, operators.CertificateOK},
		"a sender's leaf ended":       {minted(now), evidence{lastSeen: heard, receiver: good, clients: ended}, StateOnline, operators.CertificateExpired},
		"a sender is overdue":         {minted(now), evidence{lastSeen: heard, receiver: good, clients: overdue}, StateOnline, operators.CertificateRenewalFailing},
	} {
		t.Run(name, func(t *testing.T) {
			tc.known.judge(&tc.op, now)
			assert.Equal(t, tc.status, tc.op.Status)
			assert.Contains(t, OperatorStatuses, tc.op.Status)
			assert.Equal(t, tc.certificates, tc.op.Certificates.State)
			assert.Equal(t, tc.known.clients.notAfter, tc.op.Certificates.SendersNotAfter)
		})
	}
}

func minted(created time.Time) operators.Operator {
	return operators.Operator{State: operators.OperatorActive, HeartbeatMinted: true, CreatedAt: created}
}

func unminted(created time.Time) operators.Operator {
	return operators.Operator{State: operators.OperatorActive, CreatedAt: created}
}

// Every word and every kind of attention has a look; one of a newer server is
// shown as it is.
func TestLooks(t *testing.T) {
	words := append(append([]string{
		StateUnknown, string(operators.CertificateOK), string(operators.CertificateNone), AttentionUnconfirmed, AttentionRecovering, AttentionLost, AttentionOperator, AttentionSilent, AttentionExpired,
		AttentionRenewal, AttentionRefused, AttentionCA, AttentionServer, AttentionBackup, AttentionPending,
	}, Statuses...), OperatorStatuses...)
	for _, word := range words {
		l, ok := looks[word]
		require.True(t, ok, word)
		assert.NotEmpty(t, l.Title)
		assert.NotEmpty(t, l.Shape)
		assert.Contains(t, Tones, l.Tone)
	}
	assert.Equal(t, Look{"new_word", "–", ToneQuiet}, LookOf("new_word"))
}

func TestLength(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 s", 59 * time.Second: "59 s", time.Minute: "1 min", 47 * time.Hour: "47 h", 48 * time.Hour: "2 d", 5 * 365 * 24 * time.Hour: "5.0 years",
	} {
		assert.Equal(t, want, Length(d))
	}
}
