// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ikhnos/continuum/control/audit"
	"github.com/ikhnos/continuum/control/ledger"
)

// Restore writes the backup into an empty store and starts a new epoch, all in
// one transaction: whatever goes wrong, the store stays empty. It returns what the
// backup held and the first version of the new epoch. The store must have the
// schema of the header (ledger.Options.Schema) and no other user.
func (b *Reader) Restore(ctx context.Context, store *ledger.Store) (s *Summary, v ledger.Version, err error) {
	begun := false
	err = store.Update(ctx, func(tx *ledger.Tx) error {
		if begun {
			return errors.New("the database interrupted the restore: start it again")
		}
		begun = true
		if err := empty(tx); err != nil {
			return err
		}
		l := loader{tx: tx, inserts: map[string]string{}}
		if s, err = b.read(l.row); err != nil {
			return err
		}
		v, err = restored(tx, b.header)
		return err
	})
	if err != nil {
		return nil, ledger.Version{}, fmt.Errorf("restoring a backup: %w", err)
	}
	return s, v, nil
}

// empty demands a store that nobody has used, and takes out the one row that
// every new store has.
func empty(tx *ledger.Tx) error {
	for _, table := range tables {
		if table == "change_counter" {
			continue
		}
		var n int
		if err := tx.QueryRow(`SELECT COUNT(*) FROM (SELECT 1 FROM ` + table + ` LIMIT 1) AS found`).Scan(&n); err != nil {
			return fmt.Errorf("looking into table %s: %w", table, err)
		}
		if n > 0 {
			return ErrNotEmpty
		}
	}
	_, err := tx.Exec(`DELETE FROM change_counter`)
	return err
}

// restored starts the new epoch after the rows are in.
func restored(tx *ledger.Tx, from Header) (ledger.Version, error) {
	if err := tx.AlignAudit(); err != nil {
		return ledger.Version{}, err
	}
	v, err := tx.NewEpoch()
	if err != nil {
		return ledger.Version{}, err
	}
	return v, tx.Audit(audit.Entry{
		Actor: audit.ActorServer, Event: audit.BackupRestored, Object: audit.ActorServer,
		Detail: map[string]any{
			"backupCreatedAt": from.CreatedAt.Format(time.RFC3339), "backupEpoch": from.At.Epoch, "backupNumber": from.At.Number, "epoch": v.Epoch,
		},
	})
}

// loader inserts rows.
type loader struct {
	tx      *ledger.Tx
	inserts map[string]string // by table
}

func (l *loader) row(t *tableLine, values []any) error {
	insert, ok := l.inserts[t.Table]
	if !ok {
		var err error
		if insert, err = l.insert(t); err != nil {
			return err
		}
		l.inserts[t.Table] = insert
	}
	_, err := l.tx.Exec(insert, values...)
	return err
}

// insert is the statement for a table, whose columns are those of the database.
func (l *loader) insert(t *tableLine) (string, error) {
	rows, err := l.tx.Query(`SELECT * FROM ` + t.Table + ` WHERE 1 = 0`)
	if err != nil {
		return "", err
	}
	columns, err := rows.Columns()
	if err := errors.Join(err, rows.Close()); err != nil {
		return "", err
	}
	if !slices.Equal(slices.Sorted(slices.Values(columns)), slices.Sorted(slices.Values(t.Columns))) {
		return "", fmt.Errorf("%w: its columns are not those of its schema", ErrDamaged)
	}
	places := make([]string, len(t.Columns))
	for i := range places {
		places[i] = fmt.Sprintf("$%d", i+1)
	}
	return `INSERT INTO ` + t.Table + ` (` + strings.Join(t.Columns, ", ") + `) VALUES (` + strings.Join(places, ", ") + `)`, nil
}
