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

// Record writes the entry of a leaf; it implements pki.Recorder. Refusals are
// *controlapi.Problem.
func (r *Recorder) Record(ctx context.Context, req pki.Request, spki string) (pki.Record, error) {
	issued, err := r.store.Issue(ctx, ledger.IssueRequest{
		TokenHash: req.TokenHash,
		Proof:     (*ledger.Proof)(req.Proof),
		SPKI:      spki,
		Lifetime:  r.lifetime,
		RequestID: req.RequestID,
		Address:   req.Address,
	})
	if err != nil {
		return pki.Record{}, refusal(err)
	}
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
	}, nil
}

// refusal turns a refusal of the ledger into the problem of the same reason.
func refusal(err error) error {
	var r *ledger.Refusal
	if errors.As(err, &r) {
		return controlapi.NewProblem(controlapi.Reason(r.Reason), r.Detail)
	}
	return err
}
