// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"database/sql"
	"errors"
	"fmt"
)

// Reasons of refusal: the words of the API (contract, section 9).
const (
	ReasonTokenUnknown        = "token_unknown"
	ReasonTokenExpired        = "token_expired"
	ReasonTokenRevoked        = "token_revoked"
	ReasonTokenSpent          = "token_spent"
	ReasonOperatorRevoked     = "operator_revoked"
	ReasonLeafNotInLedger     = "leaf_not_in_ledger"
	ReasonLeafRevoked         = "leaf_revoked"
	ReasonLeafEnded           = "leaf_ended"
	ReasonRoleWrong           = "role_wrong"
	ReasonProofReplayed       = "proof_replayed"
	ReasonSenderRevoked       = "sender_revoked"
	ReasonSenderHeld          = "sender_held"
	ReasonClusterNotApproved  = "cluster_not_approved"
	ReasonKeyInUse            = "key_in_use"
	ReasonCAEnded             = "ca_ended"
	ReasonTooManyCertificates = "too_many_certificates"
	ReasonUnavailable         = "unavailable"
)

// standing is what the store says of an operator and of one of its holders.
type standing struct {
	operatorID    string
	orgID         string
	operatorState string
	createdAt     int64
	revokedAt     sql.NullInt64
	caCert        []byte
	caKey         []byte
	epoch         int64
	// recoveredEpoch is the newest epoch in which the operator told what it denies.
	recoveredEpoch int64
	// Of a sender; none of it of a receiver, or when there is no such sender.
	name         sql.NullString
	kind         sql.NullString
	senderState  sql.NullString
	removedAt    sql.NullInt64
	clusterState sql.NullString
	replaced     replaced
}

// standingColumns are read from operators o, change_counter n, senders s and
// clusters c.
const standingColumns = `o.org_id, o.state, o.created_at, o.revoked_at, o.client_ca_cert, o.client_ca_key,
	o.recovered_epoch, n.epoch, s.name, s.kind, s.state, s.removed_at, c.state,
	s.replaced_serials, s.replaced_until`

// fields are what standingColumns are scanned into.
func (s *standing) fields() []any {
	return []any{&s.orgID, &s.operatorState, &s.createdAt, &s.revokedAt, &s.caCert, &s.caKey,
		&s.recoveredEpoch, &s.epoch, &s.name, &s.kind, &s.senderState, &s.removedAt, &s.clusterState,
		&s.replaced.serials, &s.replaced.until}
}

// standing reads both; holderID is "" for a receiver.
func (tx *Tx) standing(operatorID, holderID string) (*standing, error) {
	if err := tx.lockRow(operatorID); err != nil {
		return nil, err
	}
	s := &standing{operatorID: operatorID}
	err := tx.QueryRow(`SELECT `+standingColumns+` FROM operators o
		JOIN change_counter n ON n.id = 1
		LEFT JOIN senders s ON s.operator_id = o.id AND s.holder_id = $2
		LEFT JOIN clusters c ON s.kind = 'cluster' AND c.org_id = o.org_id AND c.id = s.holder_id
		WHERE o.id = $1`, operatorID, holderID).Scan(s.fields()...)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("reading the standing of a holder: %w", err)
	}
	return s, nil
}

// proving reads the entry of a leaf and the standing of its holder.
func (tx *Tx) proving(operatorID, serial string) (Entry, *standing, error) {
	if err := tx.lockRow(operatorID); err != nil {
		return Entry{}, nil, err
	}
	var r entryRow
	s := &standing{operatorID: operatorID}
	err := tx.QueryRow(`SELECT `+entryColumns+`, `+standingColumns+` FROM entries e
		JOIN operators o ON o.id = e.operator_id
		JOIN change_counter n ON n.id = 1
		LEFT JOIN senders s ON e.role = 'sender' AND s.operator_id = e.operator_id AND s.holder_id = e.holder_id
		LEFT JOIN clusters c ON s.kind = 'cluster' AND c.org_id = o.org_id AND c.id = s.holder_id
		WHERE e.operator_id = $1 AND e.serial = $2`, operatorID, serial).Scan(append(r.fields(), s.fields()...)...)
	if errors.Is(err, sql.ErrNoRows) {
		return Entry{}, nil, ErrNotFound
	}
	if err != nil {
		return Entry{}, nil, fmt.Errorf("reading an entry and its holder's standing: %w", err)
	}
	return r.entry(tx.now), s, nil
}

// lockRow locks an operator where updates run beside each other.
func (tx *Tx) lockRow(operatorID string) error {
	if !tx.store.backend.dialect().lockRow {
		return nil
	}
	return tx.LockOperator(operatorID)
}

// operatorOK refuses for an operator that is not active.
func (s *standing) operatorOK() error {
	if s.operatorState != "active" {
		return &Refusal{Reason: ReasonOperatorRevoked}
	}
	return nil
}

// holderOK refuses a sender that may not send; every receiver may be one.
func (s *standing) holderOK(role string) error {
	switch {
	case role == RoleReceiver:
		return nil
	case s.removedAt.Valid || s.senderState.String != "held" && s.senderState.String != "allowed":
		return &Refusal{Reason: ReasonSenderRevoked}
	case s.senderState.String == "held":
		return &Refusal{Reason: ReasonSenderHeld}
	case s.kind.String == KindCluster && s.clusterState.String != "approved":
		return &Refusal{Reason: ReasonClusterNotApproved}
	}
	return nil
}

// leafOK refuses a leaf of the holder that is revoked, was replaced or has ended.
func (s *standing) leafOK(e Entry, now int64) error {
	switch {
	case e.State == StateRevoked, s.replaced.over(e, now):
		return &Refusal{Reason: ReasonLeafRevoked}
	case e.State == StateEnded:
		return &Refusal{Reason: ReasonLeafEnded}
	}
	return nil
}
