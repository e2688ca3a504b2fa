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
	updateLock = 0x696b686e6f73 // "ikhnos"
	// openLock is the one that servers share while they run; Options.Alone takes it
	// alone.
	openLock       = updateLock + 1
	changesChannel = "ikhnos_changes"
	pollInterval   = 500 * time.Millisecond
	queryLimit     = 10 * time.Second // of the watcher's own queries
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
	alignAudit: `SELECT setval('audit_sequence', (SELECT GREATEST(
		(SELECT COALESCE(MAX(sequence), 0) + 1 FROM audit), (SELECT last_value + 1 FROM audit_sequence))))`,
	lockRow: true,
}

// postgresBackend serves several servers on one database.
type postgresBackend struct {
	store *Store
	db    *sql.DB
	url   string
	turn  chan struct{} // held by the Update whose turn it is, so that the others wait without a connection
	stop  context.CancelFunc
	// entered holds openLock until close, unless watch has taken it over.
	entered *pgx.Conn
	wg      sync.WaitGroup
	once    sync.Once
	err     error
}

func openPostgres(ctx context.Context, s *Store, o Options, attach bool) (_ backend, err error) {
	b := &postgresBackend{store: s, url: o.DatabaseURL, turn: make(chan struct{}, 1), stop: func() {}}
	if b.db, err = sql.Open("pgx", o.DatabaseURL); err != nil {
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
	if attach {
		return b, nil
	}
	if b.entered, err = b.enter(ctx, o.Alone); err != nil {
		return nil, err
	}
	if err := migrate(ctx, b.db, goose.DialectPostgres, o.Schema); err != nil {
		return nil, err
	}
	if err := b.attempt(ctx, false, prepareAudit, nil); err != nil {
		return nil, fmt.Errorf("preparing the audit trail: %w", err)
	}
	if o.Alone { // nobody else makes changes, and the connection keeps the lock
		return b, nil
	}
	background, stop := context.WithCancel(context.Background())
	b.stop = stop
	conn := b.entered
	b.entered = nil
	b.wg.Go(func() { b.watch(background, conn) })
	return b, nil
}

// prepareAudit makes the sequence of the audit trail; elsewhere the number is one
// more than the last.
func prepareAudit(tx *Tx) error {
	if _, err := tx.Exec(`CREATE SEQUENCE IF NOT EXISTS audit_sequence`); err != nil {
		return err
	}
	return tx.align(postgresDialect.alignAudit)
}

// enter connects and takes its part of openLock, which lasts as long as the
// connection.
func (b *postgresBackend) enter(ctx context.Context, alone bool) (*pgx.Conn, error) {
	conn, err := pgx.Connect(ctx, b.url)
	if err != nil {
		return nil, errors.New("the database cannot be reached") // the cause repeats its URL
	}
	query := `SELECT pg_try_advisory_lock_shared($1)`
	if alone {
		query = `SELECT pg_try_advisory_lock($1)`
	}
	var entered bool
	if err = conn.QueryRow(ctx, query, int64(openLock)).Scan(&entered); err == nil && !entered {
		err = errors.New("the database is in use by another ikhnos")
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
	}
	return conn, nil
}

// leave gives openLock back before it closes the connection: PostgreSQL itself does
// so only some time after, when it notices.
func leave(conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, _ = conn.Exec(ctx, `SELECT pg_advisory_unlock_all()`) // fails on a broken connection
	return conn.Close(ctx)
}

func (b *postgresBackend) dialect() *dialect { return &postgresDialect }

func (b *postgresBackend) view(ctx context.Context, fn func(querier) error) error {
	tx, err := b.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true, Isolation: sql.LevelRepeatableRead})
	if err != nil {
		return fmt.Errorf("beginning to read: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // nothing was written
	return fn(tx)
}

func (b *postgresBackend) update(ctx context.Context, side bool, fn func(*Tx) error, meanwhile func() error) error {
	if !side {
		select {
		case b.turn <- struct{}{}:
			defer func() { <-b.turn }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for try := 1; ; try++ {
		err := b.attempt(ctx, side, fn, meanwhile)
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
func (b *postgresBackend) attempt(ctx context.Context, side bool, fn func(*Tx) error, meanwhile func() error) error {
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
	if meanwhile == nil {
		meanwhile = func() error { return nil }
	}
	committed := make(chan error, 1)
	go func() { committed <- sqlTx.Commit() }()
	made := meanwhile()
	if err := <-committed; err != nil {
		return fmt.Errorf("committing: %w", err)
	}
	b.store.committed(tx)
	return made
}

// watch wakes waiters when another server has made a change: at its notice, and
// at the latest with the next poll. It enters again for as long as it runs.
func (b *postgresBackend) watch(ctx context.Context, conn *pgx.Conn) {
	var last Version
	for ctx.Err() == nil {
		var err error
		if conn == nil {
			conn, err = b.enter(ctx, false)
		}
		if err == nil {
			err = b.listen(ctx, conn, &last)
			_ = leave(conn)
			conn = nil
		}
		if err != nil && ctx.Err() == nil {
			b.store.logger.WarnContext(ctx, "waiting for changes in the database failed, trying again", "error", err)
			select {
			case <-ctx.Done():
			case <-time.After(pollInterval):
			}
		}
	}
}

// listen returns when ctx ends or the connection fails. ctx ends only the waiting
// between queries: a query that is cut off would break the connection, and with it
// openLock could not be given back before PostgreSQL notices.
func (b *postgresBackend) listen(ctx context.Context, conn *pgx.Conn, last *Version) error {
	if err := whole(ctx, func(query context.Context) error {
		_, err := conn.Exec(query, "LISTEN "+changesChannel)
		return err
	}); err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	for {
		var v Version
		if err := whole(ctx, func(query context.Context) error {
			return conn.QueryRow(query, `SELECT epoch, number FROM change_counter WHERE id = 1`).Scan(&v.Epoch, &v.Number)
		}); err != nil {
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

// whole runs one short query to its end although ctx may end meanwhile.
func whole(ctx context.Context, query func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), queryLimit)
	defer cancel()
	return query(bounded)
}

func (b *postgresBackend) close() error {
	b.once.Do(func() {
		b.stop()
		b.wg.Wait()
		if b.entered != nil {
			b.err = leave(b.entered)
		}
		b.err = errors.Join(b.err, b.db.Close())
	})
	return b.err
}
