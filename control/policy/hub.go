// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/control/pki"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// Hub answers with signed policies and revocation lists, each computed once per
// change, and wakes who waits for one. It is safe for concurrent use.
type Hub struct {
	store   *ledger.Store
	keys    *pki.Keyring
	log     *slog.Logger
	waiters waiters // by operator id, woken when its policy changes
	reports waiters // under "", woken by every report
	polls   polls
	stop    chan struct{}
	once    sync.Once

	mu    sync.Mutex
	slots map[string]*slot // by operator id, guarded by mu
}

// slot keeps what was last signed for one operator. Its lock makes thousands of
// waiters cost one computation.
type slot struct {
	mu     sync.Mutex
	signed *Signed
	list   *List
}

// Signed is a policy as it is served: immutable, shared by all requests.
type Signed struct {
	controlapi.Version
	JWS  string
	ETag string // with its quotes
}

// NewHub returns a hub; Run has to run for anybody to be woken.
func NewHub(store *ledger.Store, keys *pki.Keyring, log *slog.Logger) *Hub {
	return &Hub{store: store, keys: keys, log: log, stop: make(chan struct{}), slots: map[string]*slot{}}
}

// readAgain is how soon changes are read again after the database did not answer.
const readAgain = time.Second

// Run wakes those whose policy changed, until ctx ends.
func (h *Hub) Run(ctx context.Context) error {
	changes, cancel := h.store.Changes()
	defer cancel()
	var last int64
	for {
		var again <-chan time.Time
		ids, newest, err := h.changedSince(ctx, last)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			h.log.WarnContext(ctx, "reading changes failed, trying again", slog.Any("error", err))
			again = time.After(readAgain) // this change wakes nobody a second time
		default:
			last = newest
			for _, id := range ids {
				h.waiters.wake(id)
			}
		}
		select {
		case <-changes:
		case <-again:
		case <-ctx.Done():
			return nil
		}
	}
}

// Stop answers every waiting poll and receipt at once, for a server that ends.
func (h *Hub) Stop() { h.once.Do(func() { close(h.stop) }) }

// Reported wakes those who wait for a receipt; call it after a report's commit.
func (h *Hub) Reported() { h.reports.wake("") }

// ReportsChanged returns a channel that closes with the next report.
func (h *Hub) ReportsChanged() <-chan struct{} { return h.reports.wait("") }

// Stopped returns a channel that closes with Stop.
func (h *Hub) Stopped() <-chan struct{} { return h.stop }

func (h *Hub) changedSince(ctx context.Context, last int64) (ids []string, newest int64, err error) {
	newest = last
	err = h.store.View(ctx, func(tx *ledger.Tx) error {
		rows, err := tx.Query(`SELECT id, change_number FROM operators WHERE change_number > $1`, last)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var id string
			var number int64
			if err := rows.Scan(&id, &number); err != nil {
				return err
			}
			ids, newest = append(ids, id), max(newest, number)
		}
		return rows.Err()
	})
	return ids, newest, err
}

// row is what the store says of one operator.
type row struct {
	state      operators.OperatorState
	version    controlapi.Version // of the last change that its policy shows
	lastPolicy string
	lastCRL    []byte
}

func readRow(tx *ledger.Tx, operatorID string) (row, error) {
	var r row
	err := tx.QueryRow(`SELECT state, change_number, last_policy, last_crl FROM operators WHERE id = $1`, operatorID).
		Scan(&r.state, &r.version.Number, &r.lastPolicy, &r.lastCRL)
	if errors.Is(err, sql.ErrNoRows) {
		return r, controlapi.NewProblem(controlapi.ReasonNotFound, "No operator of this server has or had this id.")
	}
	if err != nil {
		return r, fmt.Errorf("reading an operator: %w", err)
	}
	version, err := tx.Version()
	r.version.Epoch = version.Epoch
	return r, err
}

// Current returns the policy of an operator as of now: that of the last change,
// or of a revoked or deleted operator its last one. An unknown operator is
// not_found.
func (h *Hub) Current(ctx context.Context, operatorID string) (*Signed, error) {
	var r row
	err := h.store.View(ctx, func(tx *ledger.Tx) (err error) {
		r, err = readRow(tx, operatorID)
		return err
	})
	if err != nil {
		return nil, err
	}
	return h.current(ctx, operatorID, r)
}

// current returns the policy of an operator that stands as r says.
func (h *Hub) current(ctx context.Context, operatorID string, r row) (signed *Signed, err error) {
	s := h.slot(operatorID)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r.state != operators.OperatorActive && s.signed != nil && s.signed.JWS == r.lastPolicy:
	case r.state != operators.OperatorActive:
		signed, err = parseLast(r.lastPolicy)
	case s.signed == nil || s.signed.Less(r.version):
		signed, err = h.sign(ctx, operatorID)
	}
	if err != nil {
		return nil, err
	}
	if signed != nil {
		s.signed = signed
	}
	return s.signed, nil
}

func (h *Hub) slot(operatorID string) *slot {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.slots[operatorID]
	if s == nil {
		s = &slot{}
		h.slots[operatorID] = s
	}
	return s
}

// waiters are channels by name that close when the name is woken.
type waiters struct {
	mu    sync.Mutex
	chans map[string]chan struct{} // guarded by mu
}

// wait returns a channel that closes at the next wake of name. Ask for it before
// looking at the state that may change.
func (w *waiters) wait(name string) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.chans == nil {
		w.chans = map[string]chan struct{}{}
	}
	c := w.chans[name]
	if c == nil {
		c = make(chan struct{})
		w.chans[name] = c
	}
	return c
}

func (w *waiters) wake(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.chans[name]; c != nil {
		close(c)
		delete(w.chans, name)
	}
}

// polls remembers when which receiver leaf last asked for a policy.
type polls struct {
	mu   sync.Mutex
	seen map[[2]string]time.Time // by operator id and serial, guarded by mu
}

// maxPolls bounds what is remembered; forgetting costs a receipt the word
// pending for unreachable.
const maxPolls = 1 << 16

func (p *polls) note(operatorID, serial string, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seen == nil || len(p.seen) >= maxPolls {
		p.seen = map[[2]string]time.Time{}
	}
	p.seen[[2]string{operatorID, serial}] = at
}

func (p *polls) last(operatorID, serial string) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[[2]string{operatorID, serial}]
}
