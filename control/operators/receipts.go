// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package operators

import (
	"database/sql"
	"fmt"
	"time"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// knownFor is how far behind the newest report of its operator an instance may
// be and still count as running: what was replaced longer ago has no say, while
// an operator that is away as a whole keeps all its instances on the receipt.
const knownFor = time.Hour

// AnyInstance is the name on a receipt of whichever instance of an operator reports
// first, when none is known. It is no instance that anybody is shown.
const AnyInstance = ""

// newReceipt enters a receipt with every known reporting instance of the
// operators that have to confirm, or AnyInstance; confirm maps each to the
// sender's name there, empty for all senders.
func (c *change) newReceipt(subject string, v controlapi.Version, confirm map[string]string, now time.Time) (*controlapi.Receipt, error) {
	id := newID("rcp-")
	_, err := c.Exec(`INSERT INTO receipts (id, org_id, subject, epoch, number, committed_at_ms) VALUES ($1, $2, $3, $4, $5, $6)`,
		id, c.actor.OrgID, subject, v.Epoch, v.Number, now.UnixMilli())
	if err != nil {
		return nil, fmt.Errorf("writing a receipt: %w", err)
	}
	for operatorID, sender := range confirm {
		_, err := c.Exec(`INSERT INTO receipt_instances (receipt_id, operator_id, instance, sender)
			SELECT CAST($1 AS TEXT), operator_id, instance, CAST($2 AS TEXT) FROM reports WHERE operator_id = $3 AND reported_at >=
				(SELECT MAX(reported_at) FROM reports WHERE operator_id = $3) - $4
			UNION ALL SELECT CAST($1 AS TEXT), CAST($3 AS TEXT), CAST($5 AS TEXT), CAST($2 AS TEXT)
				WHERE NOT EXISTS (SELECT 1 FROM reports WHERE operator_id = $3)`,
			id, sender, operatorID, int64(knownFor/time.Second), AnyInstance)
		if err != nil {
			return nil, fmt.Errorf("writing a receipt's instances: %w", err)
		}
	}
	return ReadReceipt(c.Tx, c.actor.OrgID, id)
}

// lastReceipt is the newest receipt of a subject.
func lastReceipt(tx *ledger.Tx, orgID, subject string) (*controlapi.Receipt, error) {
	var id string
	err := tx.QueryRow(`SELECT id FROM receipts WHERE org_id = $1 AND subject = $2
		ORDER BY committed_at_ms DESC, number DESC LIMIT 1`, orgID, subject).Scan(&id)
	if err := rowError(err, whatReceipt); err != nil {
		return nil, err
	}
	return ReadReceipt(tx, orgID, id)
}

// ReadReceipt reads a receipt as stored: an instance is confirmed once it has an
// applied time, else pending. Whether a pending one is unreachable is for those
// who know when it was last heard.
func ReadReceipt(tx *ledger.Tx, orgID, id string) (*controlapi.Receipt, error) {
	r := &controlapi.Receipt{ReceiptID: id}
	err := tx.QueryRow(`SELECT number, committed_at_ms FROM receipts WHERE org_id = $1 AND id = $2`, orgID, id).
		Scan(&r.Number, &r.CommittedAtMs)
	if err := rowError(err, whatReceipt); err != nil {
		return nil, err
	}
	r.CommittedAt = controlapi.Seconds(time.UnixMilli(r.CommittedAtMs))
	r.Instances, err = collect(tx, scanInstance, `SELECT operator_id, instance, applied_at_ms, last_accepted_at_ms, first_refused_at_ms
		FROM receipt_instances WHERE receipt_id = $1 AND instance <> $2 ORDER BY operator_id, instance`, id, AnyInstance)
	return r, err
}

func scanInstance(r scanner) (i controlapi.ReceiptInstance, err error) {
	var applied, accepted, refused sql.NullInt64
	if err := r.Scan(&i.Operator, &i.Instance, &applied, &accepted, &refused); err != nil {
		return i, err
	}
	i.State = controlapi.ReceiptPending
	if applied.Valid {
		i.State = controlapi.ReceiptConfirmed
	}
	i.AppliedAt, i.AppliedAtMs = millis(applied)
	i.LastAcceptedAt, i.LastAcceptedAtMs = millis(accepted)
	i.FirstRefusedAt, i.FirstRefusedAtMs = millis(refused)
	return i, nil
}

func millis(ms sql.NullInt64) (*time.Time, int64) {
	if !ms.Valid {
		return nil, 0
	}
	t := controlapi.Seconds(time.UnixMilli(ms.Int64))
	return &t, ms.Int64
}
