// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ikhnos/continuum/control/audit"
)

// querier is the part of a database connection that a Tx uses.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Tx is one transaction. It belongs to the function it was given to.
type Tx struct {
	ctx     context.Context
	q       querier
	store   *Store
	now     time.Time
	audited []audit.Entry
	wrote   bool // ran a statement that may write
	changed bool // drew a change number
	erased  bool // what was overwritten must leave the files too
}

func (s *Store) newTx(ctx context.Context, q querier) *Tx {
	return &Tx{ctx: ctx, q: q, store: s, now: s.Now()}
}

// Exec runs a statement with $1 placeholders, each argument named in order.
func (tx *Tx) Exec(query string, args ...any) (sql.Result, error) {
	tx.wrote = true
	return tx.q.ExecContext(tx.ctx, query, args...)
}

// Query runs a query; the caller closes the rows before the next statement.
func (tx *Tx) Query(query string, args ...any) (*sql.Rows, error) {
	return tx.q.QueryContext(tx.ctx, query, args...)
}

// QueryRow runs a query of at most one row.
func (tx *Tx) QueryRow(query string, args ...any) *sql.Row {
	return tx.q.QueryRowContext(tx.ctx, query, args...)
}

// Now is the time of this transaction: whole seconds UTC.
func (tx *Tx) Now() time.Time { return tx.now }

// LockOperator holds an operator's row until the end of the transaction, and is
// ErrNotFound when there is none.
func (tx *Tx) LockOperator(id string) error {
	err := tx.QueryRow(tx.store.backend.dialect().lockOperator, id).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("locking operator: %w", err)
	}
	return nil
}

// Version is the number of the last change, and its epoch.
func (tx *Tx) Version() (Version, error) {
	var v Version
	err := tx.QueryRow(`SELECT epoch, number FROM change_counter WHERE id = 1`).Scan(&v.Epoch, &v.Number)
	if err != nil {
		return Version{}, fmt.Errorf("reading the change number: %w", err)
	}
	return v, nil
}

// NextVersion draws the next change number, sets it on the operators whose
// policies show the change, and wakes everyone who waits on Changes at commit.
func (tx *Tx) NextVersion(operatorIDs ...string) (Version, error) {
	if _, err := tx.Exec(`UPDATE change_counter SET number = number + 1 WHERE id = 1`); err != nil {
		return Version{}, fmt.Errorf("drawing a change number: %w", err)
	}
	v, err := tx.Version()
	if err != nil {
		return Version{}, err
	}
	for _, id := range operatorIDs {
		if _, err := tx.Exec(`UPDATE operators SET change_number = $1 WHERE id = $2`, v.Number, id); err != nil {
			return Version{}, fmt.Errorf("setting the change number of an operator: %w", err)
		}
	}
	tx.changed = true
	return v, nil
}

// Audit writes one line of the audit trail.
func (tx *Tx) Audit(e audit.Entry) error {
	detail := []byte("{}")
	if e.Detail != nil {
		var err error
		if detail, err = json.Marshal(e.Detail); err != nil {
			return fmt.Errorf("encoding an audit entry: %w", err)
		}
	}
	_, err := tx.Exec(`INSERT INTO audit (sequence, at, org_id, actor, event, object, detail, request_id, address)
		VALUES (`+tx.store.backend.dialect().nextAudit+`, $1, $2, $3, $4, $5, $6, $7, $8)`,
		tx.now.Unix(), e.OrgID, e.Actor, e.Event, e.Object, string(detail), e.RequestID, e.Address)
	if err != nil {
		return fmt.Errorf("writing an audit entry: %w", err)
	}
	tx.audited = append(tx.audited, e)
	return nil
}

// AlignAudit makes the next audit line follow those that were inserted by other
// means than Audit.
func (tx *Tx) AlignAudit() error {
	return tx.align(tx.store.backend.dialect().alignAudit)
}

func (tx *Tx) align(query string) error {
	if query == "" {
		return nil
	}
	var next int64
	if err := tx.QueryRow(query).Scan(&next); err != nil {
		return fmt.Errorf("aligning the audit trail: %w", err)
	}
	return nil
}

// Scrub makes what this transaction deleted or overwrote disappear from SQLite's
// log too, once it is committed.
func (tx *Tx) Scrub() { tx.erased = true }

// Setting reads one setting; ok is false when there is none.
func (tx *Tx) Setting(name string) (value []byte, ok bool, err error) {
	err = tx.QueryRow(`SELECT value FROM settings WHERE name = $1`, name).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("reading setting %s: %w", name, err)
	}
	return value, true, nil
}

// SetSetting writes one setting.
func (tx *Tx) SetSetting(name string, value []byte) error {
	_, err := tx.Exec(`INSERT INTO settings (name, value) VALUES ($1, $2)
		ON CONFLICT (name) DO UPDATE SET value = excluded.value`, name, append([]byte{}, value...)) // nil is empty, not NULL
	if err != nil {
		return fmt.Errorf("writing setting %s: %w", name, err)
	}
	return nil
}
