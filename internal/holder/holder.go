// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package holder

import (
	"context"
	"crypto/x509"
	"errors"
	"io/fs"
	"sync"
	"time"

	"github.com/ikhnos/continuum/internal/certfile"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/controlclient"
	"github.com/ikhnos/continuum/internal/renewal"
)

// Server is the part of the control server that a holder calls.
type Server interface {
	Enroll(ctx context.Context, token string, csrPEM []byte) (*controlapi.Certificate, error)
	Renew(ctx context.Context, h controlclient.Holder, csrPEM []byte) (*controlapi.Certificate, error)
	CloseIdleConnections()
}

// Settings say which certificate a Holder keeps, and how.
type Settings struct {
	// Directory is where the certificate is published.
	Directory string
	// Shared is a store that other holders of the certificate use as well; nil:
	// the directory is the store.
	Shared Store
	// Server may be nil for a holder that only follows what others publish.
	Server Server
	// Token reads the enrolment token, anew at every try; nil: there is none.
	Token func() (string, error)
	// Now is the clock, Random a source in [0,1).
	Now    func() time.Time
	Random func() float64
}

// Holder keeps one certificate.
type Holder struct {
	set   Settings
	store Store

	deadToken string // hash of a token that cannot be used any more, and why
	deadCause error
	oldToken  string // hash of a token that is no reason to replace a good pair

	mu   sync.Mutex
	have *state   // guarded by mu; replaced, never changed
	last *Failure // of the last attempt, nil after a success; guarded by mu
}

// state is a generation taken apart.
type state struct {
	generation  *certfile.Generation
	leaf        *x509.Certificate
	authorities []*x509.Certificate
	window      renewal.Window
	due         renewal.Due
}

// New returns a Holder that has nothing yet.
func New(set Settings) *Holder {
	h := &Holder{set: set, store: set.Shared}
	if h.store == nil {
		h.store = dirStore{set.Directory}
	}
	return h
}

// Load takes up what the directory holds, or, when that is nothing or ended, a
// usable pair of the shared store. After an error, or without a pair, the
// holder has what it had.
func (h *Holder) Load(ctx context.Context) error {
	g, err := certfile.Recover(h.set.Directory)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, certfile.ErrDamaged) {
		return err
	}
	if err == nil {
		if err := h.take(g, false); err != nil {
			return err
		}
	}
	if h.set.Shared == nil || h.Usable() {
		return nil
	}
	return h.follow(ctx)
}

// Refresh takes up what others published since: in the directory, and for a
// holder without a server in the shared store as well. It reports whether there
// was something new.
func (h *Holder) Refresh(ctx context.Context) (bool, error) {
	before := h.current()
	if g, err := (dirStore{h.set.Directory}).Load(ctx); err != nil {
		return false, err
	} else if g != nil && (before == nil || string(g.Certificate) != string(before.generation.Certificate) || string(g.CA) != string(before.generation.CA)) {
		if err := h.take(g, false); err != nil {
			return false, err
		}
		h.clearFailure()
	}
	if h.set.Shared != nil && h.set.Server == nil {
		if err := h.follow(ctx); err != nil {
			return false, err
		}
	}
	return h.current() != before, nil
}

// follow publishes the shared store's generation if it is better than ours.
func (h *Holder) follow(ctx context.Context) error {
	g, err := h.store.Load(ctx)
	if err != nil || g == nil || !h.acceptable(g) {
		return err
	}
	return h.install(g, false)
}

// install publishes g in the directory and takes it up.
func (h *Holder) install(g *certfile.Generation, issued bool) error {
	if _, same := h.store.(dirStore); !same {
		if err := certfile.Publish(h.set.Directory, g); err != nil {
			return err
		}
	}
	return h.take(g, issued)
}

// take makes g, which is in the directory, the one that the holder has.
func (h *Holder) take(g *certfile.Generation, issued bool) error {
	leaf, err := g.Leaf()
	if err != nil {
		return err
	}
	authorities, err := g.Authorities()
	if err != nil {
		return err
	}
	next := &state{generation: g, leaf: leaf, authorities: authorities}
	next.window = renewal.NewWindow(leaf.NotBefore, leaf.NotAfter, g.RenewAfter, g.RenewBy, h.set.Random())
	now := h.set.Now()
	next.due = renewal.DueAfterLoad(next.window, now)
	if issued {
		next.due = renewal.DueAfterIssue(next.window, renewal.Issued(leaf.NotBefore, leaf.NotAfter), now)
	}
	h.mu.Lock()
	h.have = next
	h.mu.Unlock()
	if h.set.Server != nil {
		h.set.Server.CloseIdleConnections()
	}
	return nil
}

// acceptable reports whether a stored generation may replace what we have: it is
// valid now, chains to its own CA, and is for the same names and newer, or ours
// is missing or ended.
func (h *Holder) acceptable(g *certfile.Generation) bool {
	leaf, err := g.Leaf()
	if err != nil {
		return false
	}
	authorities, err := g.Authorities()
	if err != nil || verifyChain(leaf, authorities, h.set.Now()) != nil {
		return false
	}
	have := h.current()
	if have == nil {
		return true
	}
	if !sameNames(have.leaf, leaf) || leaf.Equal(have.leaf) {
		return false
	}
	// Dates have whole seconds; of two from one second the stored one is newer,
	// because every holder stores before it uses.
	return !leaf.NotBefore.Before(have.leaf.NotBefore) || h.set.Now().After(have.leaf.NotAfter)
}

func (h *Holder) current() *state {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.have
}

func (h *Holder) clearFailure() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = nil
}

// Usable reports whether there is a pair that has not ended.
func (h *Holder) Usable() bool {
	have := h.current()
	return have != nil && !h.set.Now().After(have.leaf.NotAfter)
}

// UntilDue is how long it is until the renewal is due; zero or less means now,
// and so does a holder that has nothing.
func (h *Holder) UntilDue() time.Duration {
	if have := h.current(); have != nil {
		return have.due.In(h.set.Now())
	}
	return 0
}

// Life is how long the leaf lives from its issue, 0 without one.
func (h *Holder) Life() time.Duration {
	if have := h.current(); have != nil {
		return renewal.Life(have.leaf.NotBefore, have.leaf.NotAfter)
	}
	return 0
}
