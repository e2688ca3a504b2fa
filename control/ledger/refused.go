// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import "fmt"

// noteEvery is the shortest time in seconds between two notes for one leaf with
// the same reason: who is refused again and again does not write each time.
const noteEvery = 60

// NoteRefusedRenewal keeps why the leaf that asked for its renewal did not get it
// (contract, section 3: renewal failing). A leaf that the ledger lacks is not
// noted.
func (tx *Tx) NoteRefusedRenewal(operatorID, serial, reason string) error {
	_, err := tx.Exec(`INSERT INTO refused_renewals (operator_id, serial, reason, at)
		SELECT operator_id, serial, CAST($3 AS TEXT), CAST($4 AS BIGINT) FROM entries WHERE operator_id = $1 AND serial = $2
		ON CONFLICT (operator_id, serial) DO UPDATE SET reason = excluded.reason, at = excluded.at
		WHERE refused_renewals.reason <> excluded.reason OR refused_renewals.at <= excluded.at - $5`,
		operatorID, serial, reason, tx.now.Unix(), noteEvery)
	if err != nil {
		return fmt.Errorf("noting a refused renewal: %w", err)
	}
	// No leaf lives longer than what is lost is remembered.
	if _, err = tx.Exec(`DELETE FROM refused_renewals WHERE at < $1`, tx.now.Unix()-lostSeconds); err != nil {
		return fmt.Errorf("dropping old refused renewals: %w", err)
	}
	return nil
}
