// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package liveness

import (
	"fmt"
	"slices"
	"time"

	"github.com/ikhnos/continuum/control/operators"
)

// Words for the health of an operator (HS-1 to HS-5).
const (
	StateUnknown = "unknown" // no heartbeat secret, or none has ever arrived
	StateOnline  = "online"  // heard within OnlineFor
	StateOffline = "offline" // heard before that
)

// Words for how a sender or an operator stands, beside online and offline of an
// operator. One object has one word, the worst that is true of it.
const (
	StatusRevoked        = "revoked"         // denied, for good or on hold; an operator that was revoked
	StatusNotMeasured    = "not_measured"    // its operator does not report; an operator without a heartbeat
	StatusExpired        = "expired"         // its newest leaf has ended
	StatusSilent         = "silent"          // a sender that was accepted, and not for longer than silentAfter
	StatusRefused        = "refused"         // a sender whose last requests were refused
	StatusRenewalFailing = "renewal_failing" // after renewBy without a newer leaf, or its last renewal was refused
	StatusWaiting        = "waiting"         // a sender that is enrolled, with nothing accepted yet
	StatusSettingUp      = "setting_up"      // an operator in its first hour, not heard yet
	StatusNotEnrolled    = "not_enrolled"    // no leaf yet
	StatusActive         = "active"          // a sender that was accepted within silentAfter
)

// Statuses are all words for a sender, the worst first.
var Statuses = []string{StatusRevoked, StatusNotMeasured, StatusExpired, StatusSilent, StatusRefused,
	StatusRenewalFailing, StatusWaiting, StatusNotEnrolled, StatusActive}

// OperatorStatuses are all words for an operator, the worst first.
var OperatorStatuses = []string{StatusRevoked, StatusExpired, StateOffline, StatusRenewalFailing,
	StatusSettingUp, StatusNotEnrolled, StatusNotMeasured, StateOnline}

// Tone is the colour in which a word is shown, never alone.
type Tone string

// Tones, worst first.
const (
	ToneBad   Tone = "bad"
	ToneWarn  Tone = "warn"
	ToneInfo  Tone = "info"
	ToneOK    Tone = "ok"
	ToneQuiet Tone = "quiet"
)

// Tones are all tones, the worst first.
var Tones = []Tone{ToneBad, ToneWarn, ToneInfo, ToneOK, ToneQuiet}

// Look is how a word is shown to people: a shape, a title and a tone.
type Look struct {
	Title string
	Shape string
	Tone  Tone
}

// looks is the one table of states, for the page and the command line.
var looks = map[string]Look{
	StatusActive:         {"Active", "●", ToneOK},
	StateOnline:          {"Online", "●", ToneOK},
	StatusWaiting:        {"Waiting", "◌", ToneInfo},
	StatusSettingUp:      {"Setting up", "◌", ToneInfo},
	StatusNotEnrolled:    {"Not enrolled", "○", ToneQuiet},
	StatusSilent:         {"Silent", "▲", ToneBad},
	StateOffline:         {"Offline", "▲", ToneBad},
	StatusRenewalFailing: {"Renewal failing", "◷", ToneWarn},
	StatusExpired:        {"Expired", "⊗", ToneBad},
	StatusRefused:        {"Refused", "⬣", ToneWarn},
	StatusRevoked:        {"Revoked", "✕", ToneQuiet},

	string(operators.CertificateOK):   {"OK", "●", ToneOK},
	string(operators.CertificateNone): {"None", "○", ToneQuiet},

	StatusNotMeasured: {"Not measured", "–", ToneQuiet},
	StateUnknown:      {"Not measured", "–", ToneQuiet},

	AttentionUnconfirmed: {"Not confirmed", "✕", ToneBad},
	AttentionRecovering:  {"Recovering", "◷", ToneWarn},
	AttentionLost:        {"Lost in the restore", "⬣", ToneWarn},
	AttentionOperator:    {"Offline", "▲", ToneBad},
	AttentionSilent:      {"Silent", "▲", ToneBad},
	AttentionRefused:     {"Refused", "⬣", ToneWarn},
	AttentionCA:          {"CA ends", "◷", ToneWarn},
	AttentionServer:      {"Certificate ends", "◷", ToneWarn},
	AttentionBackup:      {"Backup is old", "◷", ToneWarn},
	AttentionPending:     {"Waiting for approval", "◌", ToneInfo},
}

// LookOf returns the look of a status, a health or a kind of attention. A word
// that it does not know is shown as it is.
func LookOf(word string) Look {
	if l, ok := looks[word]; ok {
		return l
	}
	return Look{word, "–", ToneQuiet}
}

// Rank sorts what needs attention first and what is over last.
func Rank(word string) int { return slices.Index(Tones, LookOf(word).Tone) }

// Length is a duration in its largest whole unit, for people.
func Length(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d/time.Second))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d/time.Minute))
	case d < 2*day:
		return fmt.Sprintf("%d h", int(d/time.Hour))
	case d < 730*day:
		return fmt.Sprintf("%d d", int(d/day))
	default:
		return fmt.Sprintf("%.1f years", d.Hours()/24/365)
	}
}
