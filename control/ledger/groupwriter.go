// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"time"
)

// maxGroup bounds how many updates share one commit, and so how long the first
// of them waits.
const maxGroup = 128

// truncateRetry is the time between tries to empty the log of an erased key.
const truncateRetry = 10 * time.Second

// groupWriter runs all updates of a SQLite store in one goroutine and commits
// those that wait at the same time together: one sync to disk serves them all.
type groupWriter struct {
	store   *Store
	conn    *cachedConn // owned by run
	calls   chan *call  // unbuffered: a call is either waiting in update or taken
	closing chan struct{}
	stopped chan struct{}
	// retry fires when a key was erased but still stands in the log; owned by run.
	retry <-chan time.Time
}

// call is one update. run sends what fn returned to ran, and then the fate of the
// commit to done; nobody else touches tx and err.
type call struct {
	ctx  context.Context
	bare bool // runs without a savepoint
	fn   func(*Tx) error
	tx   *Tx
	err  error
	ran  chan error
	done chan error
}

func startGroupWriter(s *Store, conn *sql.Conn) *groupWriter {
	w := &groupWriter{
		store:   s,
		conn:    newCachedConn(conn),
		calls:   make(chan *call),
		closing: make(chan struct{}),
		stopped: make(chan struct{}),
	}
	go w.run()
	return w
}

// errUndone is the fate of a call whose group held a bare one that failed after it
// had written.
var errUndone = errors.New("undone with another update")

// update runs fn and then meanwhile. A bare update, which decides before it writes,
// saves itself a savepoint; when it fails all the same, the others of its group run
// again.
func (w *groupWriter) update(ctx context.Context, bare bool, fn func(*Tx) error, meanwhile func() error) error {
	err := w.try(ctx, &call{bare: bare, fn: fn}, meanwhile)
	for errors.Is(err, errUndone) { // that other one is out of the way
		err = w.try(ctx, &call{fn: fn}, meanwhile)
	}
	return err
}

func (w *groupWriter) try(ctx context.Context, c *call, meanwhile func() error) error {
	// Once taken, an update is not interrupted: that would undo its whole group.
	c.ctx, c.ran, c.done = context.WithoutCancel(ctx), make(chan error, 1), make(chan error, 1)
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case w.calls <- c:
	case <-ctx.Done():
		return ctx.Err()
	case <-w.closing:
		return ErrClosed
	}
	if meanwhile == nil {
		return <-c.done
	}
	var made error
	if err := <-c.ran; err == nil {
		made = meanwhile()
	}
	return cmp.Or(<-c.done, made)
}

// close stops the goroutine after the group it is working on.
func (w *groupWriter) close() error {
	close(w.closing)
	<-w.stopped
	return w.conn.close()
}

func (w *groupWriter) run() {
	defer close(w.stopped)
	for {
		select {
		case <-w.closing:
			return
		case c := <-w.calls:
			w.group(c)
		case <-w.retry:
			w.truncateLog(context.Background())
		}
	}
}

// group runs first and whatever else is waiting, commits, and tells each caller.
func (w *groupWriter) group(first *call) {
	ctx := context.Background()
	var calls []*call
	err := w.conn.run(ctx, "BEGIN IMMEDIATE")
	for c := first; c != nil; c = w.waiting() {
		calls = append(calls, c)
		if err == nil {
			err = w.one(ctx, c)
		}
		c.ran <- cmp.Or(c.err, err)
		if err != nil || len(calls) == maxGroup {
			break
		}
	}
	if err == nil {
		err = w.conn.run(ctx, "COMMIT")
	}
	if err != nil {
		err = fmt.Errorf("committing: %w", err)
		_ = w.conn.run(ctx, "ROLLBACK") // fails when SQLite has rolled back by itself
	}
	w.finish(ctx, calls, err)
}

// finish tells every caller of a group; err is the group's.
func (w *groupWriter) finish(ctx context.Context, calls []*call, err error) {
	for _, c := range calls {
		fate := cmp.Or(c.err, err)
		if fate == nil {
			if c.tx.erased {
				w.truncateLog(ctx)
			}
			w.store.committed(c.tx)
		}
		c.done <- fate
	}
}

// waiting takes a call that waits right now, or nil. Before it gives up it lets
// those run that are ready to: they may be about to call, and each that comes
// along saves a commit.
func (w *groupWriter) waiting() *call {
	for range 2 {
		select {
		case c := <-w.calls:
			return c
		default:
			runtime.Gosched()
		}
	}
	return nil
}

// one runs a call, inside a savepoint unless it is bare. The call keeps its own
// error; what one returns is a fault of the transaction as a whole.
func (w *groupWriter) one(ctx context.Context, c *call) error {
	if c.bare {
		c.tx = w.store.newTx(c.ctx, w.conn)
		if c.err = guard(c.fn, c.tx); c.err != nil && c.tx.wrote {
			return errUndone
		}
		return nil
	}
	if err := w.conn.run(ctx, "SAVEPOINT one"); err != nil {
		return err
	}
	c.tx = w.store.newTx(c.ctx, w.conn)
	if c.err = guard(c.fn, c.tx); c.err != nil {
		if err := w.conn.run(ctx, "ROLLBACK TO one"); err != nil {
			return err
		}
	}
	return w.conn.run(ctx, "RELEASE one")
}

// guard keeps a mistake in one update from taking the writer with it.
func guard(fn func(*Tx) error, tx *Tx) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("an update broke off: %v", p)
		}
	}()
	return fn(tx)
}

// truncateLog moves the log into the file and empties it, so that what was
// erased is in neither. While somebody reads an older state it cannot, and is
// tried again.
func (w *groupWriter) truncateLog(ctx context.Context) {
	w.retry = nil
	var busy, frames, moved int
	err := errors.Join(
		w.conn.run(ctx, "PRAGMA busy_timeout = 250"),
		w.conn.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &frames, &moved),
		w.conn.run(ctx, "PRAGMA busy_timeout = 10000"))
	if err != nil || busy != 0 {
		w.store.logger.WarnContext(ctx, "erased key still in the database log, trying again", "error", err)
		w.retry = time.After(truncateRetry)
	}
}

// cachedConn keeps statements prepared. One goroutine at a time owns it.
type cachedConn struct {
	*sql.Conn
	stmts map[string]*sql.Stmt
}

func newCachedConn(conn *sql.Conn) *cachedConn {
	return &cachedConn{Conn: conn, stmts: map[string]*sql.Stmt{}}
}

// maxStatements bounds the cache; the queries of the program are fewer.
const maxStatements = 512

func (c *cachedConn) prepared(ctx context.Context, query string) (*sql.Stmt, error) {
	if s, ok := c.stmts[query]; ok {
		return s, nil
	}
	if len(c.stmts) == maxStatements {
		if err := c.forget(); err != nil {
			return nil, err
		}
	}
	s, err := c.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	c.stmts[query] = s
	return s, nil
}

func (c *cachedConn) run(ctx context.Context, query string) error {
	_, err := c.ExecContext(ctx, query)
	return err
}

// ExecContext runs a statement, prepared once.
func (c *cachedConn) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	s, err := c.prepared(ctx, query)
	if err != nil {
		return nil, err
	}
	return s.ExecContext(ctx, args...)
}

// QueryContext runs a query, prepared once.
func (c *cachedConn) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	s, err := c.prepared(ctx, query)
	if err != nil {
		return nil, err
	}
	return s.QueryContext(ctx, args...)
}

// QueryRowContext runs a query of one row, prepared once.
func (c *cachedConn) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	s, err := c.prepared(ctx, query)
	if err != nil {
		return c.Conn.QueryRowContext(ctx, query, args...) // fails in the same way, in the row
	}
	return s.QueryRowContext(ctx, args...)
}

func (c *cachedConn) forget() error {
	var errs []error
	for q, s := range c.stmts {
		errs = append(errs, s.Close())
		delete(c.stmts, q)
	}
	return errors.Join(errs...)
}

func (c *cachedConn) close() error {
	return errors.Join(c.forget(), c.Conn.Close()) //nolint:staticcheck // the connection's own, not this one
}
