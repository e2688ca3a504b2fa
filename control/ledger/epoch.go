// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"strconv"
	"time"
)

const settingEpochStarted = "epoch_started_at"

// FirstEpoch is that of a store that was never restored.
const FirstEpoch = 1

// unreportedWait is how long after a restore an operator that has never reported
// is waited for.
const unreportedWait = 24 * time.Hour

// NewEpoch starts a new epoch, after a restore: every token from before is dead,
// and each operator's renewals wait for its first report, which brings the
// denials that the restored ledger may lack. The epoch is the time in Unix
// seconds, so that a backup that is restored twice starts two different ones.
func (tx *Tx) NewEpoch() (Version, error) {
	last, err := tx.Version()
	if err != nil {
		return Version{}, err
	}
	epoch := max(last.Epoch+1, tx.now.Unix())
	if _, err := tx.Exec(`UPDATE change_counter SET epoch = $1 WHERE id = 1`, epoch); err != nil {
		return Version{}, fmt.Errorf("starting an epoch: %w", err)
	}
	v, err := tx.NextVersion()
	if err != nil {
		return Version{}, err
	}
	if err := tx.SetSetting(settingEpochStarted, strconv.AppendInt(nil, tx.now.Unix(), 10)); err != nil {
		return Version{}, err
	}
	ids, err := tx.ids(`SELECT id FROM operators ORDER BY id`)
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

// ids reads a query of one column of ids.
func (tx *Tx) ids(query string, args ...any) (ids []string, err error) {
	rows, err := tx.Query(query, args...)
	if err != nil {
		return nil, fmt.Errorf("listing ids: %w", err)
	}
	defer func() { _ = rows.Close() }() // rows.Err tells
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, fmt.Errorf("listing ids: %w", err)
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// recovered refuses renewals of an operator whose denials from before a restore
// have not come back yet. One that never reported is not waited for beyond a day:
// it may run without reports.
func (tx *Tx) recovered(st *standing) error {
	if st.epoch == FirstEpoch || st.recoveredEpoch >= st.epoch {
		return nil
	}
	started, err := tx.epochStarted()
	if err != nil {
		return err
	}
	if st.createdAt >= started.Unix() {
		return nil
	}
	var reports int
	if err := tx.QueryRow(`SELECT COUNT(*) FROM reports WHERE operator_id = $1`, st.operatorID).Scan(&reports); err != nil {
		return fmt.Errorf("looking for reports: %w", err)
	}
	if reports == 0 && tx.now.After(started.Add(unreportedWait)) {
		return nil
	}
	return &Refusal{ReasonUnavailable, "the operator has not reported since this server was restored"}
}

// epochStarted is when the present epoch started; the first one has no beginning.
func (tx *Tx) epochStarted() (time.Time, error) {
	raw, ok, err := tx.Setting(settingEpochStarted)
	if err != nil || !ok {
		return time.Time{}, err
	}
	started, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("reading when the epoch started: %w", err)
	}
	return unix(started), nil
}

// Recovered says that an operator has told, in this epoch, what it denies.
func (tx *Tx) Recovered(operatorID string) error {
	_, err := tx.Exec(`UPDATE operators SET recovered_epoch = (SELECT epoch FROM change_counter WHERE id = 1)
		WHERE id = $1`, operatorID)
	if err != nil {
		return fmt.Errorf("noting a first report: %w", err)
	}
	return nil
}

// Unrecovered lists the active operators of an organisation that have not told
// since the restore what they deny; none in the first epoch.
func (tx *Tx) Unrecovered(orgID string) (ids []string, started time.Time, err error) {
	v, err := tx.Version()
	if err != nil || v.Epoch == FirstEpoch {
		return nil, time.Time{}, err
	}
	if started, err = tx.epochStarted(); err != nil {
		return nil, time.Time{}, err
	}
	ids, err = tx.ids(`SELECT id FROM operators WHERE org_id = $1 AND state = 'active' AND recovered_epoch < $2
		AND created_at < $3 ORDER BY id`, orgID, v.Epoch, started.Unix())
	return ids, started, err
}
