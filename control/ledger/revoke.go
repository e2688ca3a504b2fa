// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
)

// RevokeHolder revokes for good every living leaf of a holder in a role and
// returns their serials. What was renewed from them is among them: a renewal
// keeps holder and role.
func (tx *Tx) RevokeHolder(operatorID, holder, role, reason string) ([]string, error) {
	serials, err := tx.revoke(operatorID, reason, `AND holder = $4 AND role = $5`, holder, role)
	if err != nil {
		return nil, err
	}
	return serials, tx.appendRevoked(operatorID, serials, map[string]any{"holder": holder, "role": role, "reason": reason})
}

// RevokeLeaf revokes one leaf, unless it has ended, and whatever was renewed from
// it. It returns the serials that it revoked, none when all were revoked before,
// and ErrNotFound when there is no such leaf.
func (tx *Tx) RevokeLeaf(operatorID, serial, reason string) ([]string, error) {
	leaf, err := tx.Entry(operatorID, serial)
	if err != nil {
		return nil, err
	}
	family, err := tx.family(leaf)
	if err != nil {
		return nil, err
	}
	var serials []string
	for _, serial := range family {
		one, err := tx.revoke(operatorID, reason, `AND serial = $4`, serial)
		if err != nil {
			return nil, err
		}
		serials = append(serials, one...)
	}
	if len(serials) == 0 {
		return nil, nil
	}
	return serials, tx.appendRevoked(operatorID, serials,
		map[string]any{"holder": leaf.Holder, "role": leaf.Role, "reason": reason})
}

// family is a leaf and all that was renewed from it, ended ones included. A leaf
// comes after the one it was renewed from, so one pass finds them.
func (tx *Tx) family(leaf Entry) ([]string, error) {
	rows, err := tx.Query(`SELECT serial, parent FROM entries WHERE operator_id = $1 AND holder = $2 AND role = $3
		AND sequence > $4 ORDER BY sequence`, leaf.OperatorID, leaf.Holder, leaf.Role, leaf.Sequence)
	if err != nil {
		return nil, fmt.Errorf("reading the leaves of a holder: %w", err)
	}
	defer func() { _ = rows.Close() }() // rows.Err tells
	serials, member := []string{leaf.Serial}, map[string]bool{leaf.Serial: true}
	for rows.Next() {
		var serial, parent string
		if err := rows.Scan(&serial, &parent); err != nil {
			return nil, fmt.Errorf("reading the leaves of a holder: %w", err)
		}
		if member[parent] {
			member[serial] = true
			serials = append(serials, serial)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("reading the leaves of a holder: %w", err)
	}
	return serials, nil
}

// RevokeAll revokes every living leaf of an operator and returns their serials.
func (tx *Tx) RevokeAll(operatorID, reason string) ([]string, error) {
	serials, err := tx.revoke(operatorID, reason, ``)
	if err != nil {
		return nil, err
	}
	return serials, tx.appendRevoked(operatorID, serials, map[string]any{"reason": reason})
}

// revoke revokes the living leaves of an operator to which a further condition,
// with args from $4 on, applies, and returns their serials.
func (tx *Tx) revoke(operatorID, reason, condition string, args ...any) ([]string, error) {
	rows, err := tx.Query(`UPDATE entries SET revoked_at = $1, revoke_reason = $2 WHERE operator_id = $3
		AND revoked_at IS NULL AND not_after >= $1 `+condition+` RETURNING serial`,
		append([]any{tx.now.Unix(), reason, operatorID}, args...)...)
	if err != nil {
		return nil, fmt.Errorf("revoking leaves: %w", err)
	}
	defer func() { _ = rows.Close() }() // rows.Err tells
	serials := []string{}
	for rows.Next() {
		var serial string
		if err := rows.Scan(&serial); err != nil {
			return nil, fmt.Errorf("revoking leaves: %w", err)
		}
		serials = append(serials, serial)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("revoking leaves: %w", err)
	}
	return serials, nil
}

func (tx *Tx) appendRevoked(operatorID string, serials []string, event map[string]any) error {
	event["type"], event["serials"] = EventRevoked, serials
	_, err := tx.Append(operatorID, event)
	return err
}

// RevokedSerials lists the revoked leaves of an operator that have not ended,
// with those that a restored ledger has lost (see DenyLost).
func (tx *Tx) RevokedSerials(operatorID string) ([]Revoked, error) {
	rows, err := tx.Query(`SELECT serial, revoked_at, not_after, revoke_reason FROM entries
		WHERE operator_id = $1 AND revoked_at IS NOT NULL AND not_after >= $2
		UNION ALL SELECT value, denied_at, denied_at + $3, $4 FROM lost_denials
		WHERE operator_id = $1 AND kind = 'serial' AND denied_at >= $2 - $3 ORDER BY 1`,
		operatorID, tx.now.Unix(), lostSeconds, ReasonRecovered)
	if err != nil {
		return nil, fmt.Errorf("listing revoked leaves: %w", err)
	}
	defer func() { _ = rows.Close() }() // rows.Err tells
	revoked := []Revoked{}
	for rows.Next() {
		var r Revoked
		var at, end int64
		if err := rows.Scan(&r.Serial, &at, &end, &r.Reason); err != nil {
			return nil, fmt.Errorf("listing revoked leaves: %w", err)
		}
		r.RevokedAt, r.NotAfter = unix(at), unix(end)
		revoked = append(revoked, r)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("listing revoked leaves: %w", err)
	}
	return revoked, nil
}
