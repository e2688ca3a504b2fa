// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib" // driver "pgx"
	"github.com/pressly/goose/v3"
)

const (
	postgresConnections = 16
	// updateLock is the advisory lock that Updates take alone and side updates share.
	updateLock     = 0x696b686e6f73 // "ikhnos"
	changesChannel = "ikhnos_changes"
	pollInterval   = 500 * time.Millisecond
	maxTries       = 10
)

// SQLSTATE codes after which the same transaction can succeed.
const (
	codeSerialization = "40001"
	codeDeadlock      = "40P01"
	codeUnique        = "23505" // of side updates that met; the other one is visible next time
)

var postgresDialect = dialect{
	lockOperator: `SELECT id FROM operators WHERE id = $1 FOR UPDATE`,
	nextAudit:    `nextval('audit_sequence')`,
	lockRow:      true,
}

// postgresBackend serves several servers on one database.
type postgresBackend struct {
	store *Store
	db    *sql.DB
	url   string
	turn  chan struct{} // held by the Update whose turn it is, so that the others wait without a connection
	stop  context.CancelFunc
	wg    sync.WaitGroup
	once  sync.Once
	err   error
}

func openPostgres(ctx context.Context, s *Store, url string) (_ backend, err error) {
	b := &postgresBackend{store: s, url: url, turn: make(chan struct{}, 1), stop: func() {}}
	if b.db, err = sql.Open("pgx", url); err != nil {
		return nil, errors.New("opening the database: the database URL is not valid") // the cause repeats it
	}
	defer func() {
		if err != nil {
			_ = b.close()
		}
	}()
	b.db.SetMaxOpenConns(postgresConnections)
	b.db.SetMaxIdleConns(postgresConnections)
	if err := b.db.PingContext(ctx); err != nil {
		return nil, fmt.Errorf("reaching the database: %w", err)
	}
	if err := migrate(ctx, b.db, goose.DialectPostgres); err != nil {
		return nil, err
	}
	if err := b.alignAuditSequence(ctx); err != nil {
		return nil, err
	}
	background, stop := context.WithCancel(context.Background())
	b.stop = stop
	b.wg.Go(func() { b.watch(background) })
	return b, nil
}

// alignAuditSequence makes the sequence of the audit trail, at first and after a
// restore; elsewhere the number is one more than the last.
func (b *postgresBackend) alignAuditSequence(ctx context.Context) error {
	for _, query := range []string{
		`CREATE SEQUENCE IF NOT EXISTS audit_sequence`,
		`SELECT setval('audit_sequence', (SELECT GREATEST(
			(SELECT COALESCE(MAX(sequence), 0) + 1 FROM audit), (SELECT last_value + 1 FROM audit_sequence))))`,
	} {
		err := b.attempt(ctx, false, func(tx *Tx) error {
			_, err := tx.Exec(query)
			return err
		})
		if err != nil {
			return fmt.Errorf("preparing the audit trail: %w", err)
		}
	}
	return nil
}

func (b *postgresBackend) dialect() *dialect { return &postgresDialect }

func (b *postgresBackend) view(ctx context.Context, fn func(querier) error) error {
	return viewTx(ctx, b.db, &sql.TxOptions{ReadOnly: true, Isolation: sql.LevelRepeatableRead}, fn)
}

func (b *postgresBackend) update(ctx context.Context, side bool, fn func(*Tx) error) error {
	if !side {
		select {
		case b.turn <- struct{}{}:
			defer func() { <-b.turn }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for try := 1; ; try++ {
		err := b.attempt(ctx, side, fn)
		var pg *pgconn.PgError
		if err == nil || try == maxTries || !errors.As(err, &pg) {
			return err
		}
		switch {
		case pg.Code == codeSerialization, pg.Code == codeDeadlock:
		case pg.Code == codeUnique && side:
		default:
			return err
		}
	}
}

// attempt runs fn in one transaction. READ COMMITTED is enough: the lock keeps
// Updates apart, and each statement sees what was committed before it.
func (b *postgresBackend) attempt(ctx context.Context, side bool, fn func(*Tx) error) error {
	sqlTx, err := b.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return fmt.Errorf("beginning: %w", err)
	}
	defer func() { _ = sqlTx.Rollback() }() // after a commit it does nothing
	lock := `SELECT pg_advisory_xact_lock($1)`
	if side {
		lock = `SELECT pg_advisory_xact_lock_shared($1)`
	}
	if _, err := sqlTx.ExecContext(ctx, lock, int64(updateLock)); err != nil {
		return fmt.Errorf("taking the update lock: %w", err)
	}
	tx := b.store.newTx(ctx, sqlTx)
	if err := fn(tx); err != nil {
		return err
	}
	if tx.changed {
		if _, err := sqlTx.ExecContext(ctx, `SELECT pg_notify($1, '')`, changesChannel); err != nil {
			return fmt.Errorf("telling of a change: %w", err)
		}
	}
	if err := sqlTx.Commit(); err != nil {
		return fmt.Errorf("committing: %w", err)
	}
	b.store.committed(tx)
	return nil
}

// watch wakes waiters when another server has made a change: at its notice, and
// at the latest with the next poll. It connects again for as long as it runs.
func (b *postgresBackend) watch(ctx context.Context) {
	var last Version
	for ctx.Err() == nil {
		if err := b.listen(ctx, &last); err != nil && ctx.Err() == nil {
			b.store.logger.WarnContext(ctx, "waiting for changes in the database failed, trying again", "error", err)
			select {
			case <-ctx.Done():
			case <-time.After(pollInterval):
			}
		}
	}
}

func (b *postgresBackend) listen(ctx context.Context, last *Version) error {
	conn, err := pgx.Connect(ctx, b.url)
	if err != nil {
		return errors.New("the database cannot be reached") // the cause repeats its URL
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, "LISTEN "+changesChannel); err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	for {
		var v Version
		if err := conn.QueryRow(ctx, `SELECT epoch, number FROM change_counter WHERE id = 1`).Scan(&v.Epoch, &v.Number); err != nil {
			return fmt.Errorf("polling the change number: %w", err)
		}
		if v != *last {
			*last = v
			b.store.changes.wake()
		}
		wait, cancel := context.WithTimeout(ctx, pollInterval)
		_, err := conn.WaitForNotification(wait)
		timedOut := wait.Err() != nil && ctx.Err() == nil
		cancel()
		if err != nil && !timedOut {
			return fmt.Errorf("waiting for a notice: %w", err)
		}
	}
}

func (b *postgresBackend) close() error {
	b.once.Do(func() {
		b.stop()
		b.wg.Wait()
		b.err = b.db.Close()
	})
	return b.err
}
