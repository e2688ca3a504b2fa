// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package holder

import (
	"time"

	"github.com/ikhnos/continuum/internal/controlapi"
)

// Status is how a certificate stands.
type Status struct {
	// Present says that there is a pair; without one the rest is empty but Failure.
	Present  bool
	Name     string // common name of the leaf
	Serial   string // lower-case hex
	NotAfter time.Time
	// RenewAfter and RenewBy are the window of the renewal.
	RenewAfter, RenewBy time.Time
	State               controlapi.CertificateState
	// CA is the content of ca.crt, to notice that it changed.
	CA []byte
	// Failure is how the last attempt failed, nil when it did not.
	Failure *Failure
}

// Status returns how the certificate stands now.
func (h *Holder) Status() Status {
	h.mu.Lock()
	have, last := h.have, h.last
	h.mu.Unlock()
	if have == nil {
		return Status{Failure: last}
	}
	now := h.set.Now()
	s := Status{
		Present:    true,
		Name:       have.leaf.Subject.CommonName,
		Serial:     serialOf(have.leaf),
		NotAfter:   have.leaf.NotAfter,
		RenewAfter: have.window.After,
		RenewBy:    have.window.By,
		State:      controlapi.CertificateUsable,
		CA:         have.generation.CA,
		Failure:    last,
	}
	switch {
	case now.After(have.leaf.NotAfter):
		s.State = controlapi.CertificateExpired
	case last != nil && (last.Person || last.Outcome == OutcomeRefused || last.Outcome == OutcomeClockSkew):
		s.State = controlapi.CertificateRefused
	case now.After(have.window.By):
		s.State = controlapi.CertificateOverdue
	}
	return s
}
