// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"database/sql"
	"errors"
	"fmt"
	"time"
)

const (
	// proofMargin keeps a used proof beyond its end, for a clock that is set back.
	proofMargin = 2 * time.Minute
	// Every cleanEvery-th proof looks at cleanMost others and takes out the old ones.
	cleanEvery = 16
	cleanMost  = 64
)

// UseProof spends the jti of a leaf's proof, for all servers and restarts, or is
// ErrReplayed. leaf names operator and serial.
func (tx *Tx) UseProof(leaf, jti string, expires time.Time) error {
	result, err := tx.Exec(`INSERT INTO used_proofs (leaf, jti, expires_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
		leaf, jti, expires.Add(proofMargin).Unix())
	if err != nil {
		return fmt.Errorf("spending a proof: %w", err)
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, ErrReplayed)
	}
	if tx.store.proofs.Add(1)%cleanEvery != 0 {
		return nil
	}
	return tx.cleanProofs()
}

// usedProof is the key of a row of used_proofs; the zero value is before all.
type usedProof struct{ leaf, jti string }

// cleanProofs takes out those that have ended of the next cleanMost used proofs.
// Going through the table in the order of its key, again and again, needs no
// index of their ends and changes fewer pages.
func (tx *Tx) cleanProofs() error {
	var after, last usedProof
	if p := tx.store.cleaned.Load(); p != nil {
		after = *p
	}
	err := tx.QueryRow(`SELECT leaf, jti FROM used_proofs WHERE (leaf, jti) > ($1, $2)
		ORDER BY leaf, jti LIMIT 1 OFFSET $3`, after.leaf, after.jti, cleanMost-1).Scan(&last.leaf, &last.jti)
	upTo := `AND (leaf, jti) <= ($4, $5)`
	args := []any{tx.now.Unix(), after.leaf, after.jti, last.leaf, last.jti}
	if errors.Is(err, sql.ErrNoRows) { // fewer are left: all of them, and then from the beginning
		upTo, args, err = ``, args[:3], nil
	}
	if err == nil {
		_, err = tx.Exec(`DELETE FROM used_proofs WHERE expires_at < $1 AND (leaf, jti) > ($2, $3) `+upTo, args...)
	}
	if err != nil {
		return fmt.Errorf("cleaning up used proofs: %w", err)
	}
	tx.store.cleaned.Store(&last)
	return nil
}

// CheckProof does the ledger's part of a proof check in the order of the
// contract, spends its jti, and returns the proving leaf's entry. A role other
// than "" must be the leaf's. With afterRevocation, receiver leaves that were
// good when their operator was revoked are good still: they fetch its last
// policy. Errors are *Refusal, or a fault.
func (tx *Tx) CheckProof(p Proof, role string, afterRevocation bool) (Entry, error) {
	entry, _, err := tx.checkProof(p, role, afterRevocation)
	return entry, err
}

func (tx *Tx) checkProof(p Proof, role string, afterRevocation bool) (Entry, *standing, error) {
	entry, st, err := tx.proving(p.OperatorID, p.Serial)
	if err == nil && entry.SPKI != p.SPKI || errors.Is(err, ErrNotFound) {
		return Entry{}, nil, tx.refuseUnknown(p)
	}
	if err != nil {
		return Entry{}, nil, err
	}
	if !afterRevocation || !st.outlived(entry) {
		if err := st.operatorOK(); err != nil {
			return Entry{}, nil, err
		}
		if err := st.leafOK(entry, tx.now.Unix()); err != nil {
			return Entry{}, nil, err
		}
	}
	if role != "" && role != entry.Role {
		return Entry{}, nil, &Refusal{Reason: ReasonRoleWrong}
	}
	if err := tx.UseProof(p.OperatorID+"/"+p.Serial, p.JTI, p.Expires); err != nil {
		if errors.Is(err, ErrReplayed) {
			return Entry{}, nil, &Refusal{Reason: ReasonProofReplayed}
		}
		return Entry{}, nil, err
	}
	return entry, st, st.holderOK(entry.Role)
}

// refuseUnknown refuses a leaf that is not in the ledger, or that was denied
// before a restore lost it.
func (tx *Tx) refuseUnknown(p Proof) error {
	denied, err := tx.LostDenial(p.OperatorID, "", p.Serial)
	switch {
	case err != nil:
		return err
	case denied:
		return &Refusal{Reason: ReasonLeafRevoked}
	default:
		return &Refusal{Reason: ReasonLeafNotInLedger}
	}
}

// outlived reports whether a receiver's leaf was good until its operator was
// revoked.
func (s *standing) outlived(e Entry) bool {
	if e.Role != RoleReceiver || !s.revokedAt.Valid {
		return false
	}
	at := unix(s.revokedAt.Int64)
	return !e.NotAfter.Before(at) && (e.RevokedAt == nil || !e.RevokedAt.Before(at))
}
