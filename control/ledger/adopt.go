// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"time"
)

// maxUnknownLeaves is how many unknown leaves are kept, the newest.
const maxUnknownLeaves = 10_000

// UnknownLeaf is a leaf by a CA of ours that the ledger lacks.
type UnknownLeaf struct {
	OperatorID string
	Serial     string
	Leaf       []byte // DER
	SeenAt     time.Time
}

// KeepUnknownLeaf keeps a leaf whose proof was refused as not in the ledger, for
// an administrator to adopt; the newest 10,000 are kept.
func (tx *Tx) KeepUnknownLeaf(operatorID, serial string, leafDER []byte) error {
	_, err := tx.Exec(`INSERT INTO unknown_leaves (operator_id, serial, leaf, seen_at) VALUES ($1, $2, $3, $4)
		ON CONFLICT (operator_id, serial) DO UPDATE SET seen_at = excluded.seen_at`,
		operatorID, serial, leafDER, tx.now.Unix())
	if err != nil {
		return fmt.Errorf("keeping an unknown leaf: %w", err)
	}
	_, err = tx.Exec(`DELETE FROM unknown_leaves WHERE (operator_id, serial) IN (
		SELECT operator_id, serial FROM unknown_leaves ORDER BY seen_at DESC, operator_id, serial
		LIMIT 1 OFFSET $1)`, maxUnknownLeaves)
	if err != nil {
		return fmt.Errorf("dropping the oldest unknown leaf: %w", err)
	}
	return nil
}

// UnknownLeaves lists what KeepUnknownLeaf kept, the newest first.
func (tx *Tx) UnknownLeaves() ([]UnknownLeaf, error) {
	rows, err := tx.Query(`SELECT operator_id, serial, leaf, seen_at FROM unknown_leaves
		ORDER BY seen_at DESC, operator_id, serial`)
	if err != nil {
		return nil, fmt.Errorf("listing unknown leaves: %w", err)
	}
	defer func() { _ = rows.Close() }() // rows.Err tells
	var leaves []UnknownLeaf
	for rows.Next() {
		var l UnknownLeaf
		var seen int64
		if err := rows.Scan(&l.OperatorID, &l.Serial, &l.Leaf, &seen); err != nil {
			return nil, fmt.Errorf("listing unknown leaves: %w", err)
		}
		l.SeenAt = unix(seen)
		leaves = append(leaves, l)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("listing unknown leaves: %w", err)
	}
	return leaves, nil
}

// Adopt writes the entry of a leaf that one of our CAs signed and the ledger
// lacks, after a restore. Sequence and State of e are set here. It is superseded
// at once when a leaf of the same holder and role was issued later. adopted is
// false, and nothing is written, when serial or key are known.
func (tx *Tx) Adopt(e Entry) (adopted bool, err error) {
	var known, later int
	err = tx.QueryRow(`SELECT COUNT(*) FROM entries WHERE (operator_id = $1 AND serial = $2) OR spki = $3`,
		e.OperatorID, e.Serial, e.SPKI).Scan(&known)
	if err != nil || known > 0 {
		return false, err
	}
	err = tx.QueryRow(`SELECT COUNT(*) FROM entries WHERE operator_id = $1 AND holder = $2 AND role = $3
		AND superseded_at IS NULL AND issued_at > $4`, e.OperatorID, e.Holder, e.Role, e.IssuedAt.Unix()).Scan(&later)
	if err != nil {
		return false, fmt.Errorf("looking for a later leaf: %w", err)
	}
	var supersededAt any
	if later > 0 {
		supersededAt = tx.now.Unix()
	} else if err := tx.supersede(e); err != nil {
		return false, err
	}
	if e.Sequence, err = tx.Append(e.OperatorID, issuedEvent(e)); err != nil {
		return false, err
	}
	if err := tx.insert(e, supersededAt); err != nil {
		return false, err
	}
	_, err = tx.Exec(`DELETE FROM unknown_leaves WHERE operator_id = $1 AND serial = $2`, e.OperatorID, e.Serial)
	return err == nil, err
}
