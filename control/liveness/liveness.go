// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package liveness

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
)

const (
	// OnlineFor is how long after a heartbeat an operator counts as online (HS-3).
	OnlineFor = 180 * time.Second
	// writeEvery is the shortest time between two writes for one operator (HB-24).
	writeEvery = 15 * time.Second
)

// Secrets tells whose heartbeat secret one is; *operators.Service does. Every
// secret that is not accepted is the same heartbeat_unauthorized (HB-22).
type Secrets interface {
	HeartbeatOperator(ctx context.Context, secret string) (operatorID string, err error)
}

// Tracker keeps when each operator was last heard.
type Tracker struct {
	store   *ledger.Store
	secrets Secrets
	facts   func() ServerFacts

	mu    sync.Mutex
	wrote map[string]time.Time // by operator id, guarded by mu
}

// New returns a tracker on store. facts tells what only the process knows of the
// server.
func New(store *ledger.Store, secrets Secrets, facts func() ServerFacts) *Tracker {
	return &Tracker{store: store, secrets: secrets, facts: facts, wrote: map[string]time.Time{}}
}

// Beat takes one heartbeat: the bearer secret that came with it and, when the
// body was a heartbeat of ours, that body, else nil, which leaves the last one. It writes at most once per
// operator in 15 s, and returns the operator's id or heartbeat_unauthorized.
func (t *Tracker) Beat(ctx context.Context, bearer string, body *controlapi.Heartbeat) (string, error) {
	id, err := t.secrets.HeartbeatOperator(ctx, bearer)
	if err != nil || !t.due(id, t.store.Now()) {
		return id, err
	}
	if err := t.write(ctx, id, body); err != nil {
		t.forget(id)
		return "", fmt.Errorf("writing a heartbeat: %w", err)
	}
	return id, nil
}

// due reports whether the operator may be written now, and takes that right.
func (t *Tracker) due(id string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last, ok := t.wrote[id]; ok && !now.Before(last) && now.Before(last.Add(writeEvery)) { // before: the clock was set back
		return false
	}
	t.wrote[id] = now
	return true
}

func (t *Tracker) forget(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.wrote, id)
}

func (t *Tracker) write(ctx context.Context, id string, body *controlapi.Heartbeat) error {
	text := ""
	if body != nil && ours(body) {
		encoded, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("encoding it: %w", err)
		}
		text = string(encoded)
	}
	return t.store.Update(ctx, func(tx *ledger.Tx) error {
		_, err := tx.Exec(`UPDATE operators SET last_seen_at = $1, last_beat = CASE WHEN $2 = '' THEN last_beat ELSE $2 END WHERE id = $3`,
			tx.Now().Unix(), text, id)
		return err
	})
}

// ours reports whether a body says what a heartbeat of ours says, in its words.
func ours(body *controlapi.Heartbeat) bool {
	switch body.Status {
	case controlapi.HealthOK, controlapi.HealthRecoverableError, controlapi.HealthPermanentError:
	default:
		return false
	}
	for _, c := range body.Certificates {
		switch c.State {
		case controlapi.CertificateUsable, controlapi.CertificateOverdue, controlapi.CertificateRefused, controlapi.CertificateExpired:
		default:
			return false
		}
	}
	return true
}

// healthOf judges an operator by its last heartbeat: minted says that a heartbeat
// secret exists, lastSeen is nil when none ever arrived.
func healthOf(minted, revoked bool, lastSeen *time.Time, now time.Time) *operators.Health {
	h := &operators.Health{State: StateUnknown, LastSeenAt: lastSeen, Reporting: minted && lastSeen != nil}
	switch {
	case lastSeen == nil || !minted && !revoked:
	case revoked || now.Sub(*lastSeen) > OnlineFor:
		h.State = StateOffline
	default:
		h.State = StateOnline
	}
	return h
}
