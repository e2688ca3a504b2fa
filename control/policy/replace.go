// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// goneAfter is how long an instance is silent before another may take its place:
// longer than a long poll, and two reports missed.
const goneAfter = time.Minute

// instance is what is known of one instance of an operator.
type instance struct {
	name   string
	cameAt int64     // start of the first process in this place, Unix milliseconds; 0: not known
	heard  time.Time // its last report or poll
}

// replaced chooses whose place an instance takes that came at cameAt: of the
// others that were not heard since, the one heard latest, once it is silent for
// goneAfter; -1 when there is none, or not yet. Every start of a collector is a new
// instance, so without this each restart would leave one that never confirms.
//
// Nobody can tell an instance that ended from one that is cut off from the server
// and still accepts. So one that came stands for one that went, never for more:
// the caller goes on as the one whose place it took, with the start of that one.
// When fewer came than went, the rest is still shown as unreachable. One that came
// and went without taking a place hands on its right to one, so a collector that
// failed to start leaves nothing behind.
func replaced(cameAt int64, others []instance, now time.Time) int {
	place := -1
	for i, other := range others {
		if other.heard.UnixMilli() <= cameAt && (place < 0 || other.heard.After(others[place].heard)) {
			place = i
		}
	}
	if place >= 0 && now.Sub(others[place].heard) < goneAfter {
		return -1
	}
	return place
}

// takePlaces lets the instance of r, as it will be stored, take the place of one
// that went away, with the receipts that this one has not confirmed, and the place
// that receipts keep for the first instance of an operator.
func (h *Hub) takePlaces(tx *ledger.Tx, operatorID string, r *stored) error {
	_, err := tx.Exec(`UPDATE receipt_instances SET instance = $1 WHERE operator_id = $2 AND instance = $3`,
		r.Instance, operatorID, operators.AnyInstance)
	if err != nil {
		return err
	}
	var silent int
	err = tx.QueryRow(`SELECT COUNT(*) FROM reports WHERE operator_id = $1 AND instance <> $2 AND reported_at <= $3`,
		operatorID, r.Instance, tx.Now().Add(-goneAfter).Unix()).Scan(&silent)
	if err != nil || silent == 0 {
		return err
	}
	others, err := h.instances(tx, operatorID, &r.Report)
	if err != nil {
		return err
	}
	for {
		i := replaced(r.CameAtMs, others, tx.Now())
		if i < 0 {
			return nil
		}
		taken, err := takePlace(tx, operatorID, others[i].name, r.Instance)
		if err != nil {
			return fmt.Errorf("taking the place of an instance: %w", err)
		}
		if taken {
			r.CameAtMs = others[i].cameAt
		}
		others = append(others[:i:i], others[i+1:]...)
	}
}

// takePlace forgets the instance gone and lets heir confirm what it has not. It
// reports false when another instance was faster.
func takePlace(tx *ledger.Tx, operatorID, gone, heir string) (bool, error) {
	result, err := tx.Exec(`DELETE FROM reports WHERE operator_id = $1 AND instance = $2`, operatorID, gone)
	if err != nil {
		return false, err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return false, err
	}
	_, err = tx.Exec(`UPDATE receipt_instances SET instance = $1 WHERE operator_id = $2 AND instance = $3 AND applied_at_ms IS NULL
		AND NOT EXISTS (SELECT 1 FROM receipt_instances h WHERE h.receipt_id = receipt_instances.receipt_id
			AND h.operator_id = $2 AND h.instance = $1)`, heir, operatorID, gone)
	if err != nil {
		return false, err
	}
	_, err = tx.Exec(`DELETE FROM receipt_instances WHERE operator_id = $1 AND instance = $2 AND applied_at_ms IS NULL`, operatorID, gone)
	return err == nil, err
}

// instances are all of an operator, but for that of r if r is not nil. A poll
// tells that an instance lives only when no other reports the same leaf: pods may
// share one, and a new process goes on with the leaf of the one before.
func (h *Hub) instances(tx *ledger.Tx, operatorID string, r *controlapi.Report) ([]instance, error) {
	rows, err := tx.Query(`SELECT instance, report, reported_at FROM reports WHERE operator_id = $1`, operatorID)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var all []instance
	var serials []string
	holders := map[string]int{}
	if r != nil {
		holders[r.ReceiverSerial]++
	}
	for rows.Next() {
		var name, text string
		var at int64
		if err := rows.Scan(&name, &text, &at); err != nil {
			return nil, err
		}
		if r != nil && name == r.Instance {
			continue
		}
		var last struct {
			ReceiverSerial string `json:"receiverSerial"`
			CameAtMs       int64  `json:"cameAtMs"`
		}
		if err := json.Unmarshal([]byte(text), &last); err != nil {
			return nil, fmt.Errorf("reading a report: %w", err)
		}
		all = append(all, instance{name: name, cameAt: last.CameAtMs, heard: time.Unix(at, 0)})
		serials = append(serials, last.ReceiverSerial)
		holders[last.ReceiverSerial]++
	}
	for i, serial := range serials {
		if polled := h.polls.last(operatorID, serial); holders[serial] == 1 && polled.After(all[i].heard) {
			all[i].heard = polled
		}
	}
	return all, rows.Err()
}
