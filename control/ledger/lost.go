// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// ReasonRecovered is why a leaf is revoked that an operator denied before the
// server was restored.
const ReasonRecovered = "recovered"

// lostFor is how long what a restored ledger has lost is remembered: no leaf
// lives longer.
const lostFor = 30 * 24 * time.Hour

const lostSeconds = int64(lostFor / time.Second)

// Kinds of lost denial.
const (
	lostName   = "name"
	lostSerial = "serial"
)

// DenySerials revokes again what an operator denied before a restore, with all
// that was renewed from it, and returns how many leaves that were. A serial that
// the ledger has lost is denied all the same, and never adopted.
func (tx *Tx) DenySerials(operatorID string, serials []string) (revoked int, err error) {
	var lost []string
	for _, serial := range serials {
		done, err := tx.RevokeLeaf(operatorID, serial, ReasonRecovered)
		if errors.Is(err, ErrNotFound) {
			if isSerial(serial) {
				lost = append(lost, serial)
			}
			continue
		}
		if err != nil {
			return 0, err
		}
		revoked += len(done)
	}
	lost, err = tx.denyLost(operatorID, lostSerial, lost)
	if err != nil || len(lost) == 0 {
		return revoked, err
	}
	return revoked + len(lost), tx.appendRevoked(operatorID, lost, map[string]any{"reason": ReasonRecovered})
}

// DenyLostName remembers that an operator denies a sender of which the restored
// store knows nothing: its leaves are not adopted.
func (tx *Tx) DenyLostName(operatorID, name string) error {
	_, err := tx.denyLost(operatorID, lostName, []string{name})
	return err
}

// isSerial says that a revocation list can hold this text as a serial.
func isSerial(text string) bool {
	raw, err := hex.DecodeString(text)
	return err == nil && len(raw) > 0 && len(raw) <= 20 && text == hex.EncodeToString(raw)
}

// denyLost returns the values that were not remembered yet. In the first epoch
// nothing can have been lost.
func (tx *Tx) denyLost(operatorID, kind string, values []string) (added []string, err error) {
	if v, err := tx.Version(); err != nil || v.Epoch == FirstEpoch {
		return nil, err
	}
	for _, value := range values {
		result, err := tx.Exec(`INSERT INTO lost_denials (operator_id, kind, value, denied_at) VALUES ($1, $2, $3, $4)
			ON CONFLICT DO NOTHING`, operatorID, kind, value, tx.now.Unix())
		if err != nil {
			return nil, fmt.Errorf("remembering a denial: %w", err)
		}
		if n, err := result.RowsAffected(); err != nil {
			return nil, fmt.Errorf("remembering a denial: %w", err)
		} else if n > 0 {
			added = append(added, value)
		}
	}
	return added, nil
}

// LostDenial reports whether a name or a serial is remembered as denied.
func (tx *Tx) LostDenial(operatorID, name, serial string) (bool, error) {
	var n int
	err := tx.QueryRow(`SELECT COUNT(*) FROM lost_denials WHERE operator_id = $1
		AND (kind = 'name' AND value = $2 OR kind = 'serial' AND value = $3)`, operatorID, name, serial).Scan(&n)
	if err != nil {
		return false, fmt.Errorf("looking for a denial: %w", err)
	}
	return n > 0, nil
}
