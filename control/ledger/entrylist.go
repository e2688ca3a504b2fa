// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
)

const (
	defaultLimit = 100
	maxLimit     = 500
)

// Entries lists the entries that match f and the cursor of the next page, empty
// after the last one. Any page costs what the first one does: it begins at its
// place in the index of its order.
func (tx *Tx) Entries(f Filter) (entries []Entry, cursor string, err error) {
	limit := f.Limit
	if limit <= 0 {
		limit = defaultLimit
	}
	limit = min(limit, maxLimit)
	parts, err := partsOf(f)
	if err != nil {
		return nil, "", err
	}
	for _, p := range parts {
		if len(entries) > limit {
			break
		}
		if entries, err = tx.appendEntries(entries, p, limit+1); err != nil {
			return nil, "", err
		}
	}
	if len(entries) > limit {
		entries = entries[:limit]
		cursor = parts[0].order.cursor(entries[limit-1])
	}
	return entries, cursor, nil
}

// appendEntries adds the entries of one part until there are limit of them.
func (tx *Tx) appendEntries(entries []Entry, p part, limit int) ([]Entry, error) {
	query, args := p.query(tx.now.Unix(), limit-len(entries))
	rows, err := tx.Query(query, args...)
	if err != nil {
		return nil, fmt.Errorf("listing entries: %w", err)
	}
	defer func() { _ = rows.Close() }() // rows.Err tells
	for rows.Next() {
		e, err := scanEntry(rows.Scan, tx.now)
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("listing entries: %w", err)
	}
	return entries, nil
}

// part is what one query lists: all of a filter, or what follows a cursor of the
// cursor's own operator, or of the operators after it. A single query for the two
// would go through all that comes before the cursor.
type part struct {
	Filter
	order  order
	after  []any  // key of an entry of the operator; nil begins with its first one
	beyond string // an operator, "" for none
}

func partsOf(f Filter) ([]part, error) {
	order := orderOf(f)
	if f.Cursor == "" {
		return []part{{Filter: f, order: order}}, nil
	}
	operatorID, after, err := order.parse(f.Cursor)
	if err != nil || f.OperatorID != "" && f.OperatorID != operatorID {
		return nil, ErrBadCursor
	}
	within := f
	within.OperatorID = operatorID
	parts := []part{{Filter: within, order: order, after: after}}
	if f.OperatorID == "" {
		parts = append(parts, part{Filter: f, order: order, beyond: operatorID})
	}
	return parts, nil
}

func (p *part) query(now int64, limit int) (query string, args []any) {
	w := &conditions{}
	p.operators(w)
	if p.Holder != "" {
		w.add("e.holder = ?", p.Holder)
	}
	if p.Role != "" {
		w.add("e.role = ?", p.Role)
	}
	p.state(w, now)
	if p.after != nil {
		p.follow(w)
	}
	return `SELECT ` + entryColumns + ` FROM entries e` + w.text() + ` ORDER BY ` + p.order.text() + fmt.Sprintf(` LIMIT %d`, limit), w.args
}

func (p *part) operators(w *conditions) {
	if p.OperatorID != "" {
		w.add("e.operator_id = ?", p.OperatorID)
	}
	switch {
	case p.OrgID != "" && p.beyond != "":
		w.add("e.operator_id IN (SELECT id FROM operators WHERE org_id = ? AND id "+p.order.beyond()+" ?)", p.OrgID, p.beyond)
	case p.OrgID != "":
		w.add("e.operator_id IN (SELECT id FROM operators WHERE org_id = ?)", p.OrgID)
	case p.beyond != "":
		w.add("e.operator_id "+p.order.beyond()+" ?", p.beyond)
	}
}

// state adds the conditions on state and end. A sign before a column keeps
// databases from going by it: where the order is another one, and where the key to
// begin after is the closer bound.
func (p *part) state(w *conditions, now int64) {
	ends, lives := "e.not_after < ?", "e.not_after >= ?"
	switch byEnd := p.order.columns[0] == "not_after"; {
	case !byEnd:
		ends, lives = "+"+ends, "+"+lives
	case p.after != nil && p.order.descending:
		ends = "+" + ends
	case p.after != nil:
		lives = "+" + lives
	}
	if !p.EndsBefore.IsZero() {
		w.add(ends, p.EndsBefore.Unix())
	}
	if p.Newest {
		w.add("e.superseded_at IS NULL")
	}
	switch p.State {
	case StateValid:
		w.add("e.revoked_at IS NULL AND e.superseded_at IS NULL AND "+lives, now)
	case StateSuperseded:
		w.add("e.revoked_at IS NULL AND e.superseded_at IS NOT NULL AND "+lives, now)
	case StateRevoked:
		w.add("e.revoked_at IS NOT NULL")
	case StateEnded:
		w.add("e.revoked_at IS NULL AND "+ends, now)
	}
}

// follow adds the condition of the rows after the key. Columns that the filter
// fixes are left out in front, because databases seek by the others only then.
func (p *part) follow(w *conditions) {
	fixed := map[string]bool{"holder": p.Holder != "", "role": p.Role != ""}
	columns, key := p.order.columns, p.after
	for len(columns) > 1 && fixed[columns[0]] {
		columns, key = columns[1:], key[1:]
	}
	w.add("(e."+strings.Join(columns, ", e.")+") "+p.order.beyond()+" (?"+strings.Repeat(", ?", len(columns)-1)+")", key...)
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

// order is one way of listing: by operator and then by columns. Each has an index
// and is total.
type order struct {
	columns    []string
	descending bool
	key        func(Entry) []any // of columns: int64 or string
}

var (
	orderNewest = order{[]string{"holder", "role"}, false, func(e Entry) []any { return []any{e.Holder, e.Role} }}
	orderHolder = order{[]string{"holder", "role", "not_after", "sequence"}, true, func(e Entry) []any {
		return []any{e.Holder, e.Role, e.NotAfter.Unix(), e.Sequence}
	}}
	orderEnd       = order{[]string{"not_after", "sequence"}, false, func(e Entry) []any { return []any{e.NotAfter.Unix(), e.Sequence} }}
	orderLatestEnd = order{orderEnd.columns, true, orderEnd.key}
	orderSequence  = order{[]string{"sequence"}, true, func(e Entry) []any { return []any{e.Sequence} }}
)

// orderOf is the order whose index holds about what matches and little else.
func orderOf(f Filter) order {
	switch {
	case f.Newest:
		return orderNewest
	case f.Holder != "":
		return orderHolder
	case !f.EndsBefore.IsZero():
		return orderEnd
	case f.State == StateValid: // nothing but the newest is
		return orderNewest
	case f.State != "":
		return orderLatestEnd
	}
	return orderSequence
}

func (o order) text() string {
	direction := ""
	if o.descending {
		direction = " DESC"
	}
	return "e.operator_id" + direction + ", e." + strings.Join(o.columns, direction+", e.") + direction
}

// beyond compares what comes later in the order with what came.
func (o order) beyond() string {
	if o.descending {
		return "<"
	}
	return ">"
}

func (o order) cursor(e Entry) string {
	raw, _ := json.Marshal(append([]any{e.OperatorID}, o.key(e)...)) // strings and numbers: cannot fail
	return base64.RawURLEncoding.EncodeToString(raw)
}

// parse reads a cursor back. The types of its parts are those of this order's keys.
func (o order) parse(cursor string) (operatorID string, after []any, err error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil {
		return "", nil, ErrBadCursor
	}
	var parts []json.RawMessage
	key := append([]any{""}, o.key(Entry{})...)
	if err := json.Unmarshal(raw, &parts); err != nil || len(parts) != len(key) {
		return "", nil, ErrBadCursor
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
			return "", nil, ErrBadCursor
		}
	}
	return key[0].(string), key[1:], nil
}
