// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"time"
)

// prunableOperators have entries of leaves that ended before $1.
const prunableOperators = `SELECT o.id FROM operators o WHERE EXISTS (SELECT 1 FROM entries e
	WHERE e.operator_id = o.id AND e.not_after < $1)`

// PruneAll takes out what has had no effect for long: entries of leaves and
// enrolment tokens that ended before a time in the past, used proofs that cannot
// come again, and unknown leaves and lost denials whose leaf has ended by now. It
// returns how many entries went; their operators get a pruned event each.
func (tx *Tx) PruneAll(before time.Time) (entries int64, err error) {
	ids, err := tx.ids(prunableOperators, before.Unix())
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		n, err := tx.Prune(id, before)
		if err != nil {
			return 0, err
		}
		entries += n
	}
	return entries, tx.eachOld(before, func(from string, at int64) error {
		_, err := tx.Exec(`DELETE`+from, at)
		return err
	})
}

// Prunable reports whether PruneAll has anything to do.
func (tx *Tx) Prunable(before time.Time) (bool, error) {
	ids, err := tx.ids(prunableOperators+` LIMIT 1`, before.Unix())
	if err != nil || len(ids) > 0 {
		return len(ids) > 0, err
	}
	found := false
	err = tx.eachOld(before, func(from string, at int64) error {
		var n int
		err := tx.QueryRow(`SELECT COUNT(*) FROM (SELECT 1`+from+` LIMIT 1) AS found`, at).Scan(&n)
		found = found || n > 0
		return err
	})
	return found, err
}

// eachOld calls fn with the FROM and WHERE of the rows, other than entries, that
// PruneAll takes out; at is their one argument.
func (tx *Tx) eachOld(before time.Time, fn func(from string, at int64) error) error {
	ended := tx.now.Add(-lostFor).Unix()
	for _, old := range []struct {
		from string
		at   int64
	}{
		{` FROM enrollment_tokens WHERE expires_at < $1`, before.Unix()},
		{` FROM used_proofs WHERE expires_at < $1`, tx.now.Unix()},
		{` FROM unknown_leaves WHERE seen_at < $1`, ended},
		{` FROM lost_denials WHERE denied_at < $1`, ended},
	} {
		if err := fn(old.from, old.at); err != nil {
			return fmt.Errorf("pruning: %w", err)
		}
	}
	return nil
}

// Prune deletes the entries of leaves that ended before a time in the past and
// returns how many. Their events stay, so the chain still verifies.
func (tx *Tx) Prune(operatorID string, before time.Time) (int64, error) {
	if before.After(tx.now) {
		return 0, fmt.Errorf("pruning: leaves that end before %s may be alive", before.Format(time.RFC3339))
	}
	result, err := tx.Exec(`DELETE FROM entries WHERE operator_id = $1 AND not_after < $2`, operatorID, before.Unix())
	if err != nil {
		return 0, fmt.Errorf("pruning entries: %w", err)
	}
	n, err := result.RowsAffected()
	if err != nil || n == 0 {
		return 0, err
	}
	_, err = tx.Append(operatorID, map[string]any{
		"type": EventPruned, "before": before.UTC().Format(time.RFC3339), "entries": n,
	})
	return n, err
}
