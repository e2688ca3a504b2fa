// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ikhnos/continuum/control/audit"
)

// ErrClosed says that the store was closed.
var ErrClosed = errors.New("the store is closed")

// Options say where the store is and whom it tells.
type Options struct {
	// DataDir is the directory of the SQLite file, locked while the store is open.
	DataDir string
	// DatabaseURL is a postgres:// URL; empty means SQLite under DataDir.
	DatabaseURL string
	Now         func() time.Time
	Logger      *slog.Logger
	// Alone also refuses a database that a server has open, for work that no server
	// may see half done; a data directory never has two users.
	Alone bool
	// Schema is the version to which an older schema is brought; 0 means the newest.
	Schema int64
	// AuditSink gets every audit entry with its time after its commit, from one
	// goroutine at a time; may be nil.
	AuditSink func(audit.Entry, time.Time)
}

// Store is the open database. It is safe for concurrent use.
type Store struct {
	now     func() time.Time
	logger  *slog.Logger
	backend backend
	changes broadcaster
	proofs  atomic.Uint64             // UseProof calls, to spread the cleaning
	cleaned atomic.Pointer[usedProof] // where the cleaning has come to

	sinkMu sync.Mutex
	sink   func(audit.Entry, time.Time)

	caMu sync.RWMutex
	cas  map[string]caFacts // by operator id; a CA never changes; guarded by caMu
}

// backend is what differs between the databases.
type backend interface {
	view(ctx context.Context, fn func(querier) error) error
	// update runs fn alone, and then meanwhile, unless it is nil, beside the commit;
	// it returns nil once both have succeeded and the commit is durable. A side update
	// runs beside others of its kind: it locks the operators it touches, decides
	// before it writes, and writes by Exec.
	update(ctx context.Context, side bool, fn func(*Tx) error, meanwhile func() error) error
	dialect() *dialect
	close() error
}

// dialect is the little SQL in which the databases differ.
type dialect struct {
	lockOperator string // by id, yields the id
	nextAudit    string // expression of the next audit sequence
	alignAudit   string // query that makes nextAudit follow the last row, or empty
	lockRow      bool   // whether side updates need lockOperator
}

// Open opens the database, brings its schema up to date and starts the store.
// A SQLite directory that another server has open is an error that names it, and
// so is a database from a newer version of the program.
func Open(ctx context.Context, o Options) (*Store, error) { return open(ctx, o, false) }

// Attach opens an existing database beside a server that may be running. It
// makes nothing, changes no schema, and is never woken by Changes.
func Attach(ctx context.Context, o Options) (*Store, error) { return open(ctx, o, true) }

func open(ctx context.Context, o Options, attach bool) (*Store, error) {
	s := &Store{now: o.Now, logger: o.Logger, sink: o.AuditSink, cas: map[string]caFacts{}}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	var err error
	if o.DatabaseURL == "" {
		s.backend, err = openSQLite(ctx, s, o, attach)
	} else {
		s.backend, err = openPostgres(ctx, s, o, attach)
	}
	if err != nil {
		return nil, err
	}
	if !attach {
		return s, nil
	}
	err = s.View(ctx, func(tx *Tx) error {
		_, err := tx.Schema()
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("this is no database of an ikhnos server: %w", err), s.Close())
	}
	return s, nil
}

// Close waits for the updates that have begun, refuses later ones with ErrClosed
// and closes the database.
func (s *Store) Close() error { return s.backend.close() }

// Now is the store's time: whole seconds UTC.
func (s *Store) Now() time.Time { return s.now().UTC().Truncate(time.Second) }

// View runs fn on one unchanging state of the database; fn must not write.
func (s *Store) View(ctx context.Context, fn func(*Tx) error) error {
	return s.backend.view(ctx, func(q querier) error { return fn(s.newTx(ctx, q)) })
}

// Update runs fn in a transaction that no other Update interleaves with, and
// returns nil once its commit is durable. An error of fn undoes all it did. fn
// may run more than once and must have no effect but on its Tx. A cancelled ctx
// is honoured while the update waits for its turn.
func (s *Store) Update(ctx context.Context, fn func(*Tx) error) error {
	return s.backend.update(ctx, false, fn, nil)
}

// committed tells the world about a transaction after its commit.
func (s *Store) committed(tx *Tx) {
	if s.sink != nil && len(tx.audited) > 0 {
		s.sinkMu.Lock()
		for _, e := range tx.audited {
			s.sink(e, tx.now)
		}
		s.sinkMu.Unlock()
	}
	if tx.changed {
		s.changes.wake()
	}
}
