// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package liveness

import (
	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/operators"
)

// readRecovery adds what a restore has left to do: operators that have not told
// what they deny, and senders that operators allow and the store has lost.
func readRecovery(tx *ledger.Tx, orgID string, s *Summary) error {
	waiting, started, err := tx.Unrecovered(orgID)
	if err != nil {
		return err
	}
	for _, id := range waiting {
		s.Attention = append(s.Attention, Attention{
			Kind: AttentionRecovering, Object: id, Since: &started,
			Why:     "it has not reported since this server was restored; its renewals wait",
			Command: "ikhnos operator get " + id,
		})
	}
	lost, err := operators.LostSenders(tx, orgID)
	if err != nil {
		return err
	}
	for _, sender := range lost {
		at := sender.LastAcceptedAt
		s.Attention = append(s.Attention, Attention{
			Kind: AttentionLost, Object: sender.Name, Since: &at,
			Why:     sender.OperatorID + " still allows it, and this restored server does not know it: adopt its certificate, or revoke it",
			Command: "ikhnos cert adopt --issued-after 30d --dry-run", // no leaf lives longer
		})
	}
	return nil
}
