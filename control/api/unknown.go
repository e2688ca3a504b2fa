// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"errors"
	"log/slog"
	"net/http"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// keepLeaf passes err on. When it says that the ledger lacks a leaf which a CA
// of ours has signed and whose key signed the proof, the leaf is kept: after a
// restore, cert adopt admits it.
func (s *Server) keepLeaf(r *http.Request, v *verified, err error) error {
	err = refusal(err)
	var p *controlapi.Problem
	if !errors.As(err, &p) || p.Reason != controlapi.ReasonLeafNotInLedger {
		return err
	}
	kept := s.cfg.Store.Update(r.Context(), func(tx *ledger.Tx) error {
		return tx.KeepUnknownLeaf(v.OperatorID, v.Serial, v.leaf)
	})
	if kept != nil {
		s.log.WarnContext(r.Context(), "keeping an unknown leaf failed", slog.Any("error", kept))
	}
	return err
}

// noteRefused passes err on. A leaf whose renewal it refuses is noted as failing
// to renew. A replayed proof is not the holder's attempt, and a server that cannot
// answer has refused nothing.
func (s *Server) noteRefused(r *http.Request, v *verified, err error) error {
	var p *controlapi.Problem
	if v == nil || !errors.As(err, &p) || p.Status >= http.StatusInternalServerError || p.Reason == controlapi.ReasonProofReplayed {
		return err
	}
	noted := s.cfg.Store.Update(r.Context(), func(tx *ledger.Tx) error {
		return tx.NoteRefusedRenewal(v.OperatorID, v.Serial, string(p.Reason))
	})
	if noted != nil {
		s.log.WarnContext(r.Context(), "noting a refused renewal failed", slog.Any("error", noted))
	}
	return err
}
