// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/control/pki"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// listAge is how old a revocation list may grow before it is signed again.
const listAge = 6 * time.Hour

// List is a revocation list as it is served: immutable.
type List struct {
	DER  []byte
	ETag string // with its quotes

	version  controlapi.Version
	signedAt time.Time
}

func newList(der []byte) *List {
	sum := sha256.Sum256(der)
	return &List{DER: der, ETag: `"` + hex.EncodeToString(sum[:16]) + `"`}
}

// CRL returns the revocation list of an operator's CA: signed at the last change
// or in the last six hours, or of a revoked or deleted operator its last one. An
// unknown operator is not_found.
func (h *Hub) CRL(ctx context.Context, operatorID string) (*List, error) {
	var r row
	err := h.store.View(ctx, func(tx *ledger.Tx) (err error) {
		r, err = readRow(tx, operatorID)
		return err
	})
	if err != nil {
		return nil, err
	}
	if r.state != operators.OperatorActive {
		return newList(r.lastCRL), nil
	}
	s := h.slot(operatorID)
	s.mu.Lock()
	defer s.mu.Unlock()
	age := time.Duration(0)
	if s.list != nil {
		age = h.store.Now().Sub(s.list.signedAt) // negative once the clock was set back: not valid yet
	}
	if s.list == nil || s.list.version.Less(r.version) || age < 0 || age >= listAge {
		list, err := h.signList(ctx, operatorID)
		if err != nil {
			return nil, err
		}
		s.list = list
	}
	return s.list, nil
}

func (h *Hub) signList(ctx context.Context, operatorID string) (list *List, err error) {
	err = h.store.View(ctx, func(tx *ledger.Tx) error {
		r, err := readRow(tx, operatorID)
		if err != nil {
			return err
		}
		ca, err := h.authority(tx, operatorID)
		if err != nil {
			return err
		}
		now := tx.Now()
		der, err := crlOf(tx, ca, operatorID, r.version, now.Add(pki.CRLLife))
		if err != nil {
			return err
		}
		list = newList(der)
		list.version, list.signedAt = r.version, now
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("signing the revocation list of an operator: %w", err)
	}
	return list, nil
}

func crlOf(tx *ledger.Tx, ca *pki.CA, operatorID string, version controlapi.Version, nextUpdate time.Time) ([]byte, error) {
	revoked, err := tx.RevokedSerials(operatorID)
	if err != nil {
		return nil, fmt.Errorf("reading revoked serials: %w", err)
	}
	leaves := make([]pki.RevokedLeaf, len(revoked))
	for i, r := range revoked {
		leaves[i] = pki.RevokedLeaf{Serial: r.Serial, RevokedAt: r.RevokedAt, Reason: r.Reason}
	}
	return pki.SignCRL(ca, pki.CRLNumber(version.Epoch, version.Number), leaves, tx.Now(), nextUpdate)
}

// authority opens the CA of an operator as the transaction sees it.
func (h *Hub) authority(tx *ledger.Tx, operatorID string) (*pki.CA, error) {
	var cert, key []byte
	if err := tx.QueryRow(`SELECT client_ca_cert, client_ca_key FROM operators WHERE id = $1`, operatorID).Scan(&cert, &key); err != nil {
		return nil, fmt.Errorf("reading the CA of an operator: %w", err)
	}
	return h.keys.CA(operatorID, cert, key)
}
