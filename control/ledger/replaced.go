// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
)

// replaced is what a rekey in progress replaces of a sender, as stored. The zero
// value replaces nothing.
type replaced struct {
	serials sql.NullString // JSON array
	until   sql.NullInt64
}

// has reports whether a serial, which is hex, is among them.
func (r *replaced) has(serial string) bool {
	return r.until.Valid && strings.Contains(r.serials.String, `"`+serial+`"`)
}

// over reports whether a leaf has lived to the end of its overlap, which counts
// from that second on and waits for no sweep.
func (r *replaced) over(e Entry, now int64) bool {
	return e.Role == RoleSender && r.has(e.Serial) && now >= r.until.Int64
}

// mayRenew refuses a replaced leaf as soon as its holder has a living leaf that
// is not: what it would get must not pass for the new one.
func (tx *Tx) mayRenew(c *candidate) error {
	if c.role != RoleSender || !c.replaced.has(c.parent) {
		return nil
	}
	rows, err := tx.Query(`SELECT serial FROM entries WHERE operator_id = $1 AND holder = $2 AND role = $3
		AND not_after >= $4 AND revoked_at IS NULL`, c.operatorID, c.holder, c.role, tx.now.Unix())
	if err != nil {
		return fmt.Errorf("looking for a new leaf: %w", err)
	}
	defer func() { _ = rows.Close() }() // rows.Err tells
	for rows.Next() {
		var serial string
		if err := rows.Scan(&serial); err != nil {
			return fmt.Errorf("looking for a new leaf: %w", err)
		}
		if !c.replaced.has(serial) {
			return &Refusal{ReasonLeafRevoked, "a newer leaf has replaced it"}
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("looking for a new leaf: %w", err)
	}
	return nil
}

// replaceChild makes what a replaced leaf was renewed to one of the replaced
// leaves, which the operator's policy shows.
func (tx *Tx) replaceChild(c *candidate, serial string) error {
	if c.role != RoleSender || !c.replaced.has(c.parent) {
		return nil
	}
	var serials []string
	if err := json.Unmarshal([]byte(c.replaced.serials.String), &serials); err != nil {
		return fmt.Errorf("reading replaced leaves: %w", err)
	}
	text, err := json.Marshal(append(serials, serial))
	if err != nil {
		return fmt.Errorf("encoding replaced leaves: %w", err)
	}
	_, err = tx.Exec(`UPDATE senders SET replaced_serials = $1 WHERE operator_id = $2 AND holder_id = $3`,
		string(text), c.operatorID, c.holderID)
	if err != nil {
		return fmt.Errorf("writing replaced leaves: %w", err)
	}
	_, err = tx.NextVersion(c.operatorID)
	return err
}
