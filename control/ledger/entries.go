// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"database/sql"
	"errors"
	"fmt"
	"time"
)

const entryColumns = `e.operator_id, e.serial, e.sequence, e.holder, e.holder_id, e.kind, e.role, e.issuer, e.parent,
	e.not_before, e.not_after, e.renew_after, e.renew_by, e.spki, e.requested_by, e.issued_at,
	e.superseded_at, e.revoked_at, e.revoke_reason`

// entryRow is a row of entryColumns.
type entryRow struct {
	Entry
	notBefore, notAfter, renewAfter, renewBy, issuedAt int64
	superseded, revoked                                sql.NullInt64
}

// fields are what entryColumns are scanned into.
func (r *entryRow) fields() []any {
	return []any{&r.OperatorID, &r.Serial, &r.Sequence, &r.Holder, &r.HolderID, &r.Kind, &r.Role, &r.Issuer, &r.Parent,
		&r.notBefore, &r.notAfter, &r.renewAfter, &r.renewBy, &r.SPKI, &r.RequestedBy, &r.issuedAt,
		&r.superseded, &r.revoked, &r.RevokeReason}
}

// entry is the entry of a row that was read; now decides whether it has ended.
func (r *entryRow) entry(now time.Time) Entry {
	e := r.Entry
	e.NotBefore, e.NotAfter = unix(r.notBefore), unix(r.notAfter)
	e.RenewAfter, e.RenewBy, e.IssuedAt = unix(r.renewAfter), unix(r.renewBy), unix(r.issuedAt)
	switch {
	case r.revoked.Valid:
		at := unix(r.revoked.Int64)
		e.State, e.RevokedAt = StateRevoked, &at
	case now.After(e.NotAfter):
		e.State = StateEnded
	case r.superseded.Valid:
		e.State = StateSuperseded
	default:
		e.State = StateValid
	}
	return e
}

// scanEntry reads entryColumns; now decides which entries have ended.
func scanEntry(scan func(...any) error, now time.Time) (Entry, error) {
	var r entryRow
	err := scan(r.fields()...)
	if errors.Is(err, sql.ErrNoRows) {
		return Entry{}, ErrNotFound
	}
	if err != nil {
		return Entry{}, fmt.Errorf("reading an entry: %w", err)
	}
	return r.entry(now), nil
}

func unix(s int64) time.Time { return time.Unix(s, 0).UTC() }

// Entry returns one entry, or ErrNotFound.
func (tx *Tx) Entry(operatorID, serial string) (Entry, error) {
	return scanEntry(tx.QueryRow(`SELECT `+entryColumns+` FROM entries e WHERE e.operator_id = $1 AND e.serial = $2`,
		operatorID, serial).Scan, tx.now)
}
