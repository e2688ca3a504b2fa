// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package holder

import (
	"context"
	"time"

	"github.com/ikhnos/continuum/internal/renewal"
)

// Look is what one look at a certificate brought.
type Look struct {
	// Adopted says that a generation of somebody else was taken up.
	Adopted bool
	// Attempted says that there was an attempt: Result, and Err when it failed.
	Attempted bool
	// ByToken says that the attempt was to spend a new token over a good pair,
	// whose standing is as before when it failed.
	ByToken bool
	Result  Result
	Err     error
	// ReadErr is why the store could not be read, if so.
	ReadErr error
}

// plan is when to try again.
type plan struct {
	backoff
	token string // hash of the token at the last failure

	byToken backoff // of new tokens
}

// backoff is the wait after failures in a row.
type backoff struct {
	failures int
	retry    renewal.Due
}

func (b *backoff) fail(h *Holder) {
	b.failures++
	now := h.set.Now()
	pause := renewal.Backoff(b.failures, h.Life(), h.set.Random())
	b.retry = renewal.DueAfterLoad(renewal.Window{After: now.Add(pause)}, now)
}

// Keep keeps the certificate until ctx ends, and calls seen after every look at
// it. It looks at the clock, the store and the token again at least every minute,
// or every tenth of a short life, because timers stand still while a machine
// sleeps. A holder without a server takes up what others publish and never asks.
func (h *Holder) Keep(ctx context.Context, seen func(Look)) {
	var p plan
	h.expectToken()
	for {
		look := h.look(ctx, &p)
		if ctx.Err() != nil {
			return // whatever failed was cut off by ourselves
		}
		seen(look)
		if !Sleep(ctx, min(renewal.Nap(h.Life()), max(h.wait(&p), time.Second))) {
			return
		}
	}
}

func (h *Holder) look(ctx context.Context, p *plan) Look {
	var look Look
	look.Adopted, look.ReadErr = h.Refresh(ctx)
	if p.failures > 0 && (look.Adopted || h.tokenHash() != p.token) {
		p.failures = 0 // somebody did something about it
	}
	if h.set.Server == nil {
		return look
	}
	if h.TokenIsNew() && (p.byToken.failures == 0 || p.byToken.retry.In(h.set.Now()) <= 0) {
		look.Attempted, look.ByToken = true, true
		if look.Result, look.Err = h.Reenroll(ctx); look.Err == nil {
			*p = plan{}
		} else {
			p.byToken.fail(h)
		}
		return look
	}
	if h.wait(p) > 0 {
		return look
	}
	look.Attempted = true
	if look.Result, look.Err = h.Attempt(ctx); look.Err == nil {
		p.failures = 0
		return look
	}
	p.fail(h)
	p.token = h.tokenHash()
	return look
}

// wait is how long it is until the next attempt, if ever.
func (h *Holder) wait(p *plan) time.Duration {
	switch {
	case h.set.Server == nil:
		return renewal.Nap(h.Life())
	case p.failures > 0:
		return p.retry.In(h.set.Now())
	}
	return h.UntilDue()
}

// tokenHash tells one enrolment token from another, "" from none.
func (h *Holder) tokenHash() string {
	if h.set.Token == nil {
		return ""
	}
	text, err := h.set.Token()
	if err != nil {
		return ""
	}
	return tokenHash(text)
}

// Sleep waits for d and reports whether it passed before ctx ended.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
