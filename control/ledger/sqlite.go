// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	"github.com/pressly/goose/v3"
	_ "modernc.org/sqlite" // driver "sqlite"
)

// DatabaseFile is the name of the SQLite file in the data directory.
const DatabaseFile = "ikhnos.db"

const readConnections = 8

// Pragmas of every connection. FULL makes every commit durable; secure_delete
// overwrites what is deleted, so an erased key is gone from the file. The log is
// moved into the file at 16 MiB, not at every 4 MiB, because that costs a sync.
// A larger cache makes commits slower: many look at every page in it.
const pragmas = "_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)" +
	"&_pragma=foreign_keys(1)&_pragma=secure_delete(1)&_pragma=wal_autocheckpoint(4096)" +
	"&_pragma=cache_size(-4096)&_pragma=temp_store(MEMORY)"

var sqliteDialect = dialect{
	lockOperator: `SELECT id FROM operators WHERE id = $1`,
	nextAudit:    `(SELECT COALESCE(MAX(sequence), 0) + 1 FROM audit)`,
}

// sqliteBackend reads through a pool and writes through one connection that one
// goroutine owns.
type sqliteBackend struct {
	lock    *os.File
	readers *sql.DB
	idle    chan *cachedConn // of readers, nil for one that is not open yet; a view holds one
	writers *sql.DB
	writer  *groupWriter
	once    sync.Once
	err     error
}

func openSQLite(ctx context.Context, s *Store, o Options, attach bool) (_ backend, err error) {
	b := &sqliteBackend{}
	defer func() {
		if err != nil {
			_ = b.close()
		}
	}()
	file, err := filepath.Abs(filepath.Join(o.DataDir, DatabaseFile))
	if err != nil {
		return nil, fmt.Errorf("finding the database: %w", err)
	}
	if attach {
		if _, err := os.Stat(file); err != nil {
			return nil, fmt.Errorf("data directory %s holds no database: %w", o.DataDir, err)
		}
		return b, b.connect(ctx, s, file)
	}
	if b.lock, err = lockDir(o.DataDir); err != nil {
		return nil, err
	}
	// SQLite gives its other files the mode of this one.
	if err := createPrivate(file); err != nil {
		return nil, err
	}
	if err := b.migrate(ctx, file, o.Schema); err != nil {
		return nil, fmt.Errorf("opening %s: %w", file, err)
	}
	return b, b.connect(ctx, s, file)
}

func sourceName(file string) string {
	return (&url.URL{Scheme: "file", OmitHost: true, Path: file, RawQuery: pragmas}).String()
}

func (b *sqliteBackend) migrate(ctx context.Context, file string, to int64) error {
	db, err := sql.Open("sqlite", sourceName(file))
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	return errors.Join(migrate(ctx, db, goose.DialectSQLite3, to), db.Close())
}

// connect opens the pools and starts the writer.
func (b *sqliteBackend) connect(ctx context.Context, s *Store, file string) (err error) {
	if b.writers, err = sql.Open("sqlite", sourceName(file)); err != nil {
		return fmt.Errorf("opening the database: %w", err)
	}
	b.writers.SetMaxOpenConns(1)
	if b.readers, err = sql.Open("sqlite", sourceName(file)+"&_pragma=query_only(1)"); err != nil {
		return fmt.Errorf("opening the database: %w", err)
	}
	b.idle = make(chan *cachedConn, readConnections)
	for range readConnections {
		b.idle <- nil
	}
	conn, err := b.writers.Conn(ctx)
	if err != nil {
		return fmt.Errorf("opening the database: %w", err)
	}
	b.writer = startGroupWriter(s, conn)
	return nil
}

func (b *sqliteBackend) dialect() *dialect { return &sqliteDialect }

// view runs fn on one state of the file, which a transaction holds. Its
// statements stay prepared for the next view.
func (b *sqliteBackend) view(ctx context.Context, fn func(querier) error) error {
	var c *cachedConn
	var open bool
	select {
	case c, open = <-b.idle:
	case <-ctx.Done():
		return ctx.Err()
	}
	if !open {
		return ErrClosed
	}
	defer func() { b.idle <- c }()
	if c == nil {
		conn, err := b.readers.Conn(ctx)
		if err != nil {
			return fmt.Errorf("beginning to read: %w", err)
		}
		c = newCachedConn(conn)
	}
	defer func() {
		if c.run(context.WithoutCancel(ctx), "ROLLBACK") != nil { // also when it never began
			_ = c.close()
			c = nil
		}
	}()
	if err := c.run(ctx, "BEGIN"); err != nil {
		return fmt.Errorf("beginning to read: %w", err)
	}
	return fn(c)
}

func (b *sqliteBackend) update(ctx context.Context, side bool, fn func(*Tx) error, meanwhile func() error) error {
	return b.writer.update(ctx, side, fn, meanwhile)
}

func (b *sqliteBackend) close() error {
	b.once.Do(func() {
		var errs []error
		if b.writer != nil {
			errs = append(errs, b.writer.close())
		}
		if b.idle != nil {
			for range readConnections { // waits for the views that have begun
				if c := <-b.idle; c != nil {
					errs = append(errs, c.close())
				}
			}
			close(b.idle)
		}
		for _, db := range []*sql.DB{b.readers, b.writers} {
			if db != nil {
				errs = append(errs, db.Close())
			}
		}
		if b.lock != nil {
			errs = append(errs, b.lock.Close())
		}
		b.err = errors.Join(errs...)
	})
	return b.err
}
