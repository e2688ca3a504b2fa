// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"time"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/liveness"
	"github.com/ikhnos/continuum/control/operators"
)

// worst is the title of a word that needs attention, "" of another.
func worst(word string) string {
	if l := liveness.LookOf(word); l.Tone == liveness.ToneBad || l.Tone == liveness.ToneWarn {
		return l.Title
	}
	return ""
}

func leafLook(e ledger.Entry, now time.Time) liveness.Look {
	switch {
	case e.State == ledger.StateRevoked:
		return liveness.LookOf(liveness.StatusRevoked)
	case e.State == ledger.StateEnded:
		return liveness.Look{Title: "Ended", Shape: "⊗", Tone: liveness.ToneQuiet}
	case e.State == ledger.StateSuperseded:
		return liveness.Look{Title: "Replaced", Shape: "○", Tone: liveness.ToneQuiet}
	case now.After(e.RenewBy):
		return liveness.LookOf(liveness.StatusRenewalFailing)
	default:
		return liveness.Look{Title: "Valid", Shape: "●", Tone: liveness.ToneOK}
	}
}

func clusterLook(s operators.ClusterState) liveness.Look {
	switch s {
	case operators.ClusterApproved:
		return liveness.Look{Title: "Approved", Shape: "●", Tone: liveness.ToneOK}
	case operators.ClusterPending:
		return liveness.Look{Title: "Waits for approval", Shape: "◌", Tone: liveness.ToneInfo}
	default:
		return liveness.LookOf(liveness.StatusRevoked)
	}
}
