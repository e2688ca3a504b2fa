// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"strconv"
	"time"
)

const settingEpochStarted = "epoch_started_at"

// firstEpoch is that of a store that was never restored.
const firstEpoch = 1

// unreportedWait is how long after a restore an operator that has never reported
// is waited for.
const unreportedWait = 24 * time.Hour

// NewEpoch starts a new epoch, after a restore: every token from before is dead,
// and each operator's renewals wait for its first report, which brings the
// denials that the restored ledger may lack.
func (tx *Tx) NewEpoch() (Version, error) {
	if _, err := tx.Exec(`UPDATE change_counter SET epoch = epoch + 1 WHERE id = 1`); err != nil {
		return Version{}, fmt.Errorf("starting an epoch: %w", err)
	}
	v, err := tx.NextVersion()
	if err != nil {
		return Version{}, err
	}
	if err := tx.SetSetting(settingEpochStarted, strconv.AppendInt(nil, tx.now.Unix(), 10)); err != nil {
		return Version{}, err
	}
	ids, err := tx.operatorIDs()
	if err != nil {
		return Version{}, err
	}
	for _, id := range ids {
		if _, err := tx.Append(id, map[string]any{"type": EventEpoch, "epoch": v.Epoch}); err != nil {
			return Version{}, err
		}
	}
	return v, nil
}

func (tx *Tx) operatorIDs() (ids []string, err error) {
	rows, err := tx.Query(`SELECT id FROM operators ORDER BY id`)
	if err != nil {
		return nil, fmt.Errorf("listing operators: %w", err)
	}
	defer func() { _ = rows.Close() }() // rows.Err tells
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, fmt.Errorf("listing operators: %w", err)
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// recovered refuses renewals of an operator whose denials from before a restore
// have not come back yet. One that never reported is not waited for beyond a day:
// it may run without reports.
func (tx *Tx) recovered(st *standing) error {
	if st.epoch == firstEpoch {
		return nil
	}
	raw, _, err := tx.Setting(settingEpochStarted)
	if err != nil {
		return err
	}
	started, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		return fmt.Errorf("reading when the epoch started: %w", err)
	}
	var now, before int
	err = tx.QueryRow(`SELECT COUNT(CASE WHEN epoch >= $1 THEN 1 END), COUNT(CASE WHEN epoch < $1 THEN 1 END)
		FROM reports WHERE operator_id = $2`, st.epoch, st.operatorID).Scan(&now, &before)
	if err != nil {
		return fmt.Errorf("looking for reports: %w", err)
	}
	switch {
	case now > 0, st.createdAt >= started:
		return nil
	case before == 0 && tx.now.After(unix(started).Add(unreportedWait)):
		return nil
	}
	return &Refusal{ReasonUnavailable, "the operator has not reported since this server was restored"}
}
