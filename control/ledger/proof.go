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
// ErrReplayed. sequence is that of the leaf's entry.
func (tx *Tx) UseProof(operatorID string, sequence int64, jti string, expires time.Time) error {
	result, err := tx.Exec(`INSERT INTO used_proofs (operator_id, sequence, jti, expires_at) VALUES ($1, $2, $3, $4)
		ON CONFLICT DO NOTHING`, operatorID, sequence, jti, expires.Add(proofMargin).Unix())
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
type usedProof struct {
	operatorID string
	sequence   int64
	jti        string
}

// cleanProofs takes out those that have ended of the next cleanMost used proofs.
// Going through the table in the order of its key, again and again, needs no
// index of their ends and changes fewer pages.
func (tx *Tx) cleanProofs() error {
	var after, last usedProof
	if p := tx.store.cleaned.Load(); p != nil {
		after = *p
	}
	err := tx.QueryRow(`SELECT operator_id, sequence, jti FROM used_proofs WHERE (operator_id, sequence, jti) > ($1, $2, $3)
		ORDER BY operator_id, sequence, jti LIMIT 1 OFFSET $4`, after.operatorID, after.sequence, after.jti, cleanMost-1).
		Scan(&last.operatorID, &last.sequence, &last.jti)
	upTo := `AND (operator_id, sequence, jti) <= ($5, $6, $7)`
	args := []any{tx.now.Unix(), after.operatorID, after.sequence, after.jti, last.operatorID, last.sequence, last.jti}
	if errors.Is(err, sql.ErrNoRows) { // fewer are left: all of them, and then from the beginning
		upTo, args, err = ``, args[:4], nil
	}
	if err == nil {
		_, err = tx.Exec(`DELETE FROM used_proofs WHERE expires_at < $1 AND (operator_id, sequence, jti) > ($2, $3, $4) `+upTo, args...)
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
	found, err := tx.proving(p)
	if err := tx.refuse(p, found, err, role, afterRevocation); err != nil {
		return Entry{}, err
	}
	return found.Entry, tx.spendProof(found, &p)
}

// spendProof spends a proof that nothing speaks against.
func (tx *Tx) spendProof(found *proven, p *Proof) error {
	err := tx.UseProof(found.OperatorID, found.Sequence, p.JTI, p.Expires)
	if errors.Is(err, ErrReplayed) {
		return &Refusal{Reason: ReasonProofReplayed}
	}
	return err
}

// refuse says what speaks against a proof, in the order of the contract; err is of
// the query that found it.
func (tx *Tx) refuse(p Proof, found *proven, err error, role string, afterRevocation bool) error {
	if err == nil && found.SPKI != p.SPKI || errors.Is(err, ErrNotFound) {
		return tx.refuseUnknown(p)
	}
	if err != nil {
		return err
	}
	if !afterRevocation || !found.outlived(found.Entry) {
		if err := found.operatorOK(); err != nil {
			return err
		}
		if err := found.leafOK(found.Entry, tx.now.Unix()); err != nil {
			return err
		}
	}
	switch {
	case role != "" && role != found.Role:
		return &Refusal{Reason: ReasonRoleWrong}
	case found.replayed:
		return &Refusal{Reason: ReasonProofReplayed}
	}
	return found.holderOK(found.Role)
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
