// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	defaultLimit = 100
	maxLimit     = 500
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

// Entries lists the entries that match f and the cursor of the next page, empty
// after the last one.
func (tx *Tx) Entries(f Filter) (entries []Entry, cursor string, err error) {
	limit := f.Limit
	if limit <= 0 {
		limit = defaultLimit
	}
	limit = min(limit, maxLimit)
	w := tx.where(f)
	order := orderOf(f)
	if f.Cursor != "" {
		if err := order.after(w, f.Cursor); err != nil {
			return nil, "", err
		}
	}
	rows, err := tx.Query(`SELECT `+entryColumns+` FROM entries e`+w.text()+` ORDER BY `+order.by+
		fmt.Sprintf(` LIMIT %d`, limit+1), w.args...)
	if err != nil {
		return nil, "", fmt.Errorf("listing entries: %w", err)
	}
	defer func() { _ = rows.Close() }() // rows.Err tells
	for rows.Next() {
		e, err := scanEntry(rows.Scan, tx.now)
		if err != nil {
			return nil, "", err
		}
		entries = append(entries, e)
	}
	if err := rows.Err(); err != nil {
		return nil, "", fmt.Errorf("listing entries: %w", err)
	}
	if len(entries) > limit {
		entries = entries[:limit]
		cursor = order.cursor(entries[limit-1])
	}
	return entries, cursor, nil
}

// conditions builds a WHERE clause.
type conditions struct {
	parts []string
	args  []any
}

// add joins a condition in which ? stands for each of args.
func (w *conditions) add(condition string, args ...any) {
	for _, a := range args {
		w.args = append(w.args, a)
		condition = strings.Replace(condition, "?", fmt.Sprintf("$%d", len(w.args)), 1)
	}
	w.parts = append(w.parts, condition)
}

func (w *conditions) text() string {
	if len(w.parts) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(w.parts, " AND ")
}

func (tx *Tx) where(f Filter) *conditions {
	w := &conditions{}
	if f.OperatorID != "" {
		w.add("e.operator_id = ?", f.OperatorID)
	}
	if f.OrgID != "" {
		w.add("e.operator_id IN (SELECT id FROM operators WHERE org_id = ?)", f.OrgID)
	}
	if f.Holder != "" {
		w.add("e.holder = ?", f.Holder)
	}
	if f.Role != "" {
		w.add("e.role = ?", f.Role)
	}
	if !f.EndsBefore.IsZero() {
		w.add("e.not_after < ?", f.EndsBefore.Unix())
	}
	if f.Newest {
		w.add("e.superseded_at IS NULL")
	}
	now := tx.now.Unix()
	switch f.State {
	case StateValid:
		w.add("e.revoked_at IS NULL AND e.superseded_at IS NULL AND e.not_after >= ?", now)
	case StateSuperseded:
		w.add("e.revoked_at IS NULL AND e.superseded_at IS NOT NULL AND e.not_after >= ?", now)
	case StateRevoked:
		w.add("e.revoked_at IS NOT NULL")
	case StateEnded:
		w.add("e.revoked_at IS NULL AND e.not_after < ?", now)
	}
	return w
}

// order is one way of listing; each has an index and total order.
type order struct {
	by   string
	next string // condition of the rows after a key, with one ? for each part
	key  func(Entry) []any
}

var (
	orderNewest = order{
		by:   "e.operator_id, e.holder, e.role",
		next: "(e.operator_id, e.holder, e.role) > (?, ?, ?)",
		key:  func(e Entry) []any { return []any{e.OperatorID, e.Holder, e.Role} },
	}
	orderHolder = order{
		by:   "e.operator_id DESC, e.holder DESC, e.role DESC, e.not_after DESC, e.sequence DESC",
		next: "(e.operator_id, e.holder, e.role, e.not_after, e.sequence) < (?, ?, ?, ?, ?)",
		key: func(e Entry) []any {
			return []any{e.OperatorID, e.Holder, e.Role, e.NotAfter.Unix(), e.Sequence}
		},
	}
	orderEnd = order{
		by:   "e.operator_id, e.not_after, e.sequence",
		next: "(e.operator_id, e.not_after, e.sequence) > (?, ?, ?)",
		key:  func(e Entry) []any { return []any{e.OperatorID, e.NotAfter.Unix(), e.Sequence} },
	}
	orderSequence = order{
		by:   "e.operator_id DESC, e.sequence DESC",
		next: "(e.operator_id, e.sequence) < (?, ?)",
		key:  func(e Entry) []any { return []any{e.OperatorID, e.Sequence} },
	}
)

func orderOf(f Filter) order {
	switch {
	case f.Newest:
		return orderNewest
	case f.Holder != "":
		return orderHolder
	case !f.EndsBefore.IsZero():
		return orderEnd
	}
	return orderSequence
}

func (o order) cursor(e Entry) string {
	raw, _ := json.Marshal(o.key(e)) // strings and numbers: cannot fail
	return base64.RawURLEncoding.EncodeToString(raw)
}

// after restricts w to the rows after a cursor. The types of a cursor's parts are
// those of this order's keys.
func (o order) after(w *conditions, cursor string) error {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil {
		return ErrBadCursor
	}
	var parts []json.RawMessage
	key := o.key(Entry{})
	if err := json.Unmarshal(raw, &parts); err != nil || len(parts) != len(key) {
		return ErrBadCursor
	}
	for i := range key {
		switch key[i].(type) {
		case int64:
			var n int64
			err = json.Unmarshal(parts[i], &n)
			key[i] = n
		default:
			var s string
			err = json.Unmarshal(parts[i], &s)
			key[i] = s
		}
		if err != nil {
			return ErrBadCursor
		}
	}
	w.add(o.next, key...)
	return nil
}
