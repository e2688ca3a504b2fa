// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
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

// proven is what decides on a proof: its leaf's entry, the standing of the holder,
// and whether the proof was used before.
type proven struct {
	Entry
	*standing
	replayed bool
}

const provenColumns = entryColumns + `, ` + standingColumns + `,
	EXISTS (SELECT 1 FROM used_proofs u WHERE u.operator_id = e.operator_id AND u.sequence = e.sequence AND u.jti = $3)`

const provenTables = `entries e
	JOIN operators o ON o.id = e.operator_id
	JOIN change_counter n ON n.id = 1
	LEFT JOIN senders s ON e.role = 'sender' AND s.operator_id = e.operator_id AND s.holder_id = e.holder_id
	LEFT JOIN clusters c ON s.kind = 'cluster' AND c.org_id = o.org_id AND c.id = s.holder_id`

// proving reads what decides on a proof.
func (tx *Tx) proving(p Proof) (*proven, error) {
	return tx.readProven(p, `SELECT `+provenColumns+` FROM `+provenTables+` WHERE e.operator_id = $1 AND e.serial = $2`, nil)
}

// renewing is what decides on a renewal beside the proof: whether the new key is
// known, how many leaves of the holder are neither revoked nor ended, and the end
// of the operator's chain. One query for all of it is a third of the work of four.
type renewing struct {
	known    bool
	living   int
	sequence int64
	hash     []byte
}

const renewingColumns = `
	EXISTS (SELECT 1 FROM entries k WHERE k.spki = $4),
	(SELECT COUNT(*) FROM entries l WHERE l.operator_id = e.operator_id AND l.holder = e.holder AND l.role = e.role
		AND l.not_after >= $5 AND l.revoked_at IS NULL),
	h.sequence, h.hash`

// An operator that has an entry has its event.
const headTable = `
	JOIN events h ON h.operator_id = e.operator_id
		AND h.sequence = (SELECT MAX(m.sequence) FROM events m WHERE m.operator_id = e.operator_id)`

// renewal reads what decides on the renewal of a leaf for a new key.
func (tx *Tx) renewal(p Proof, spki string) (*proven, *renewing, error) {
	r := &renewing{}
	found, err := tx.readProven(p, `SELECT `+provenColumns+`, `+renewingColumns+` FROM `+provenTables+headTable+`
		WHERE e.operator_id = $1 AND e.serial = $2`,
		[]any{&r.known, &r.living, &r.sequence, &r.hash}, spki, tx.now.Unix())
	return found, r, err
}

// readProven runs a query of provenColumns and more; args come after $3.
func (tx *Tx) readProven(p Proof, query string, more []any, args ...any) (*proven, error) {
	if err := tx.lockRow(p.OperatorID); err != nil {
		return nil, err
	}
	var r entryRow
	found := &proven{standing: &standing{operatorID: p.OperatorID}}
	fields := slices.Concat(r.fields(), found.fields(), []any{&found.replayed}, more)
	err := tx.QueryRow(query, append([]any{p.OperatorID, p.Serial, p.JTI}, args...)...).Scan(fields...)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("reading an entry and its holder's standing: %w", err)
	}
	found.Entry = r.entry(tx.now)
	return found, nil
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
