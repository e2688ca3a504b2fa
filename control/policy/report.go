// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/internal/controlapi"
)

const (
	// forgetAfter is how long an instance stays listed that reports no more while
	// another instance of its operator still does: a pod that none came for. With
	// a receipt to confirm it stays, for one that comes later.
	forgetAfter = time.Hour
	// refusalWindow is how long after a revocation a first refusal belongs to it.
	refusalWindow = time.Hour
)

// Recorded is what a report brought about.
type Recorded struct {
	// Confirmed are the times from a revocation's commit to its being enforced by
	// the instance, for each receipt that the report confirmed.
	Confirmed []time.Duration
	// Rekeyed are the senders of a rekey in progress that the instance has accepted
	// with a newer leaf.
	Rekeyed []controlapi.ReportSender
}

// Record stores the newest report of an instance of operatorID, which takes the
// place of one that went away, confirms the receipts that it answers, and takes
// over the denials that it remembers across a new epoch. It refuses a report above
// the server's own number. After the commit the caller calls Reported.
func (h *Hub) Record(tx *ledger.Tx, operatorID string, r *controlapi.Report) (out Recorded, err error) {
	version, err := tx.Version()
	if err != nil {
		return out, err
	}
	if controlapi.Version(version).Less(r.Policy.Version) {
		return out, controlapi.NewProblem(controlapi.ReasonLedgerRollback, "")
	}
	if r.Denied != nil {
		if err := recoverDenials(tx, operatorID, r, version); err != nil {
			return out, fmt.Errorf("taking over denials: %w", err)
		}
	}
	whole, err := merged(tx, operatorID, r)
	if err != nil {
		return out, fmt.Errorf("merging a report: %w", err)
	}
	if err := h.takePlaces(tx, operatorID, whole); err != nil {
		return out, fmt.Errorf("looking for an instance that went away: %w", err)
	}
	if err := storeReport(tx, operatorID, whole); err != nil {
		return out, fmt.Errorf("storing a report: %w", err)
	}
	if out.Confirmed, err = confirmReceipts(tx, operatorID, r, &whole.Report); err != nil {
		return out, fmt.Errorf("confirming receipts: %w", err)
	}
	if out.Rekeyed, err = rekeyed(tx, operatorID, r); err != nil {
		return out, fmt.Errorf("looking for rekeyed senders: %w", err)
	}
	return out, nil
}

// rekeyed are the reported senders of a rekey whose last leaf is not among those
// that are replaced.
func rekeyed(tx *ledger.Tx, operatorID string, r *controlapi.Report) ([]controlapi.ReportSender, error) {
	rows, err := tx.Query(`SELECT name, replaced_serials FROM senders WHERE operator_id = $1 AND replaced_until IS NOT NULL`, operatorID)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	replaced := map[string]string{}
	for rows.Next() {
		var name, serials string
		if err := rows.Scan(&name, &serials); err != nil {
			return nil, err
		}
		replaced[name] = serials
	}
	var done []controlapi.ReportSender
	for _, s := range r.Senders {
		serials, ok := replaced[s.Name]
		if ok && s.Serial != "" && !strings.Contains(serials, `"`+s.Serial+`"`) {
			done = append(done, s)
		}
	}
	return done, rows.Err()
}

func storeReport(tx *ledger.Tx, operatorID string, r *stored) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encoding it: %w", err)
	}
	now := tx.Now()
	if _, err := tx.Exec(`DELETE FROM reports WHERE operator_id = $1 AND reported_at < $2
			AND NOT EXISTS (SELECT 1 FROM receipt_instances i WHERE i.operator_id = reports.operator_id
				AND i.instance = reports.instance AND i.applied_at_ms IS NULL)`,
		operatorID, now.Add(-forgetAfter).Unix()); err != nil {
		return err
	}
	_, err = tx.Exec(`INSERT INTO reports (operator_id, instance, epoch, number, report, reported_at)
		VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (operator_id, instance) DO UPDATE SET epoch = excluded.epoch, number = excluded.number,
			report = excluded.report, reported_at = excluded.reported_at`,
		operatorID, r.Instance, r.Policy.Epoch, r.Policy.Number, string(text), now.Unix())
	return err
}

// pendingReceipt is a receipt that an instance may have something to say on.
// Times are Unix milliseconds, 0 when not known.
type pendingReceipt struct {
	id, sender                       string
	committed, applied, lastAccepted int64
}

// confirmReceipts enters what the report says on receipts. When a sender was last
// accepted may have been told in an earlier part, whole; when it was first refused
// belongs to the number of r alone.
func confirmReceipts(tx *ledger.Tx, operatorID string, r, whole *controlapi.Report) (confirmed []time.Duration, err error) {
	pending, err := pendingReceipts(tx, operatorID, r)
	if err != nil {
		return nil, err
	}
	applied := appliedAt(r, tx.Now())
	for _, p := range pending {
		known := p
		lastAccepted, _ := senderTimes(whole, p.sender)
		_, firstRefused := senderTimes(r, p.sender)
		switch {
		case p.applied == 0:
			p.applied, p.lastAccepted = applied, lastAccepted
			confirmed = append(confirmed, time.Duration(applied-p.committed)*time.Millisecond)
		case lastAccepted > p.lastAccepted && lastAccepted <= p.applied: // it came in a later part
			p.lastAccepted = lastAccepted
		}
		if p == known && firstRefused == 0 {
			continue
		}
		_, err = tx.Exec(`UPDATE receipt_instances SET applied_at_ms = $1, last_accepted_at_ms = $2, first_refused_at_ms = $3
			WHERE receipt_id = $4 AND operator_id = $5 AND instance = $6`,
			p.applied, nullable(p.lastAccepted), nullable(firstRefused), p.id, operatorID, r.Instance)
		if err != nil {
			return nil, err
		}
	}
	return confirmed, nil
}

// pendingReceipts are those at or below the reported version that the instance
// has not confirmed, or whose first refusal is still unknown.
func pendingReceipts(tx *ledger.Tx, operatorID string, r *controlapi.Report) ([]pendingReceipt, error) {
	rows, err := tx.Query(`SELECT i.receipt_id, i.sender, r.committed_at_ms,
			COALESCE(i.applied_at_ms, 0), COALESCE(i.last_accepted_at_ms, 0)
		FROM receipt_instances i JOIN receipts r ON r.id = i.receipt_id
		WHERE i.operator_id = $1 AND i.instance = $2
			AND (r.epoch < $3 OR r.epoch = $3 AND r.number <= $4)
			AND (i.applied_at_ms IS NULL OR i.first_refused_at_ms IS NULL AND r.committed_at_ms > $5)`,
		operatorID, r.Instance, r.Policy.Epoch, r.Policy.Number, tx.Now().Add(-refusalWindow).UnixMilli())
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var pending []pendingReceipt
	for rows.Next() {
		var p pendingReceipt
		if err := rows.Scan(&p.id, &p.sender, &p.committed, &p.applied, &p.lastAccepted); err != nil {
			return nil, err
		}
		pending = append(pending, p)
	}
	return pending, rows.Err()
}

// senderTimes finds when a sender was last accepted and first refused, in Unix
// milliseconds of the server's clock; sender "" means any. 0 means never.
func senderTimes(r *controlapi.Report, sender string) (lastAccepted, firstRefused int64) {
	for _, s := range r.Senders {
		if sender != "" && s.Name != sender {
			continue
		}
		accepted := s.LastAcceptedAtMs
		if accepted == 0 && s.LastAcceptedAt != nil {
			accepted = s.LastAcceptedAt.UnixMilli()
		}
		if accepted > 0 {
			lastAccepted = max(lastAccepted, accepted+r.ClockOffsetMs)
		}
		if refused := s.FirstRefusedAtMs + r.ClockOffsetMs; s.FirstRefusedAtMs > 0 && (firstRefused == 0 || refused < firstRefused) {
			firstRefused = refused
		}
	}
	return lastAccepted, firstRefused
}

// appliedAt is when the reported policy came into force, in Unix milliseconds of
// the server's clock; now, from an instance that does not say.
func appliedAt(r *controlapi.Report, now time.Time) int64 {
	switch {
	case r.Policy.AppliedAtMs != 0:
		return r.Policy.AppliedAtMs + r.ClockOffsetMs
	case !r.Policy.AppliedAt.IsZero():
		return r.Policy.AppliedAt.UnixMilli() + r.ClockOffsetMs
	default:
		return now.UnixMilli()
	}
}

func nullable(ms int64) any {
	if ms == 0 {
		return nil
	}
	return ms
}
