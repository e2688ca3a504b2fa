// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"slices"
	"time"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/liveness"
	"github.com/ikhnos/continuum/control/operators"
)

// tone is the colour of a state, and a class of the style sheet.
type tone string

// Tones, worst first.
const (
	toneBad   tone = "bad"
	toneWarn  tone = "warn"
	toneInfo  tone = "info"
	toneOK    tone = "ok"
	toneQuiet tone = "quiet"
)

var tones = []tone{toneBad, toneWarn, toneInfo, toneOK, toneQuiet}

// look is how a state is shown: a shape, a word and a tone, never a tone alone.
type look struct {
	Word  string
	Shape string
	Tone  tone
}

// Words for an operator that a sender does not have.
const statusSettingUp = "setting_up"

// looks of the words for operators, senders and what needs attention.
var looks = map[string]look{
	liveness.StatusActive:         {"Active", "●", toneOK},
	liveness.StateOnline:          {"Online", "●", toneOK},
	liveness.StatusWaiting:        {"Waiting", "◌", toneInfo},
	statusSettingUp:               {"Setting up", "◌", toneInfo},
	liveness.StatusNotEnrolled:    {"Not enrolled", "○", toneQuiet},
	liveness.StatusSilent:         {"Silent", "▲", toneBad},
	liveness.StateOffline:         {"Offline", "▲", toneBad},
	liveness.StatusRenewalFailing: {"Renewal failing", "◷", toneWarn},
	liveness.StatusExpired:        {"Expired", "⊗", toneBad},
	liveness.StatusRefused:        {"Refused", "⬣", toneWarn},
	liveness.StatusRevoked:        {"Revoked", "✕", toneQuiet},
	liveness.StatusNotMeasured:    {"Not measured", "–", toneQuiet},
	liveness.StateUnknown:         {"Not measured", "–", toneQuiet},
	liveness.AttentionUnconfirmed: {"Unconfirmed", "✕", toneBad},
	liveness.AttentionRecovering:  {"Recovering", "◷", toneWarn},
	liveness.AttentionLost:        {"Lost in the restore", "⬣", toneWarn},
}

// attentionStates are the states behind each kind of attention.
var attentionStates = map[string]string{
	liveness.AttentionUnconfirmed: liveness.AttentionUnconfirmed,
	liveness.AttentionRecovering:  liveness.AttentionRecovering,
	liveness.AttentionLost:        liveness.AttentionLost,
	liveness.AttentionOperator:    liveness.StateOffline,
	liveness.AttentionSilent:      liveness.StatusSilent,
	liveness.AttentionExpired:     liveness.StatusExpired,
	liveness.AttentionRenewal:     liveness.StatusRenewalFailing,
	liveness.AttentionRefused:     liveness.StatusRefused,
}

// lookOf shows a word that has no look of its own as it is.
func lookOf(state string) look {
	if l, ok := looks[state]; ok {
		return l
	}
	return look{state, "–", toneQuiet}
}

// worst is the word of a state that needs attention, "" of another.
func worst(state string) string {
	if l := lookOf(state); l.Tone == toneBad || l.Tone == toneWarn {
		return l.Word
	}
	return ""
}

// rank sorts what needs attention first and what is over last.
func rank(state string) int { return slices.Index(tones, lookOf(state).Tone) }

// settingUpFor is how long a new operator may be unheard (HS-9).
const settingUpFor = time.Hour

// operatorState is the one word for an operator, the worst of its health and its
// newest receiver leaf, nil before the first.
func operatorState(op *operators.Operator, receiver *ledger.Entry, now time.Time) string {
	switch {
	case op.State == operators.OperatorRevoked:
		return liveness.StatusRevoked
	case receiver != nil && now.After(receiver.NotAfter):
		return liveness.StatusExpired
	case op.Health.State == liveness.StateOffline:
		return liveness.StateOffline
	case receiver != nil && now.After(receiver.RenewBy):
		return liveness.StatusRenewalFailing
	case op.Health.State == liveness.StateOnline:
		return liveness.StateOnline
	case receiver == nil:
		return liveness.StatusNotEnrolled
	case now.Sub(op.CreatedAt) < settingUpFor:
		return statusSettingUp
	default:
		return liveness.StatusNotMeasured
	}
}

func leafLook(e ledger.Entry, now time.Time) look {
	switch {
	case e.State == ledger.StateRevoked:
		return looks[liveness.StatusRevoked]
	case e.State == ledger.StateEnded:
		return look{"Ended", "⊗", toneQuiet}
	case e.State == ledger.StateSuperseded:
		return look{"Replaced", "○", toneQuiet}
	case now.After(e.RenewBy):
		return looks[liveness.StatusRenewalFailing]
	default:
		return look{"Valid", "●", toneOK}
	}
}

func clusterLook(s operators.ClusterState) look {
	switch s {
	case operators.ClusterApproved:
		return look{"Approved", "●", toneOK}
	case operators.ClusterPending:
		return look{"Waits for approval", "◌", toneInfo}
	default:
		return looks[liveness.StatusRevoked]
	}
}
