// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"time"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/pki"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// Recorder lets the issuer write into the ledger before it signs. This file is
// the only place where the two meet.
type Recorder struct {
	store    *ledger.Store
	lifetime time.Duration
}

// NewRecorder returns a recorder whose leaves live for lifetime.
func NewRecorder(store *ledger.Store, lifetime time.Duration) *Recorder {
	return &Recorder{store: store, lifetime: lifetime}
}

// Record writes the entry of a leaf and has it signed beside the commit; it
// implements pki.Recorder. Refusals are *controlapi.Problem.
func (r *Recorder) Record(ctx context.Context, req pki.Request, spki string, sign func(pki.Record) error) error {
	_, err := r.store.Issue(ctx, ledger.IssueRequest{
		TokenHash: req.TokenHash,
		Proof:     (*ledger.Proof)(req.Proof),
		SPKI:      spki,
		Lifetime:  r.lifetime,
		RequestID: req.RequestID,
		Address:   req.Address,
		Meanwhile: func(issued ledger.Issuance) error { return sign(recordOf(issued)) },
	})
	return refusal(err)
}

// recordOf is what a leaf's signature is made from.
func recordOf(issued ledger.Issuance) pki.Record {
	e := issued.Entry
	return pki.Record{
		OperatorID: e.OperatorID,
		Serial:     e.Serial,
		Role:       controlapi.Role(e.Role),
		Kind:       controlapi.Kind(e.Kind),
		HolderID:   e.HolderID,
		Holder:     e.Holder,
		NotBefore:  e.NotBefore,
		NotAfter:   e.NotAfter,
		RenewAfter: e.RenewAfter,
		RenewBy:    e.RenewBy,
		CACert:     issued.CACert,
		CAKey:      issued.CAKey,
	}
}

// refusal turns a refusal of the ledger into the problem of the same reason.
func refusal(err error) error {
	var r *ledger.Refusal
	if errors.As(err, &r) {
		return controlapi.NewProblem(controlapi.Reason(r.Reason), r.Detail)
	}
	return err
}
