// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/otel/attribute"

	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/controlclient"
)

const (
	// beatTimeout is at most the shortest interval, so beats never overlap.
	beatTimeout = minInterval
	// lastBeatTimeout bounds what a stop can lose to a server that hangs.
	lastBeatTimeout = 3 * time.Second
	// attemptsPerBeat is how often a beat is sent that did not reach the server. With
	// one request of a hundred lost, three beats in a row would be lost once in a
	// million, and a collector that runs be called offline; with three attempts each
	// that does not happen (HS-3).
	attemptsPerBeat = 3
	// retryParts says how soon: between one and two of so many parts of the interval
	// later, 3 to 6 s of 60.
	retryParts = 20
	// failuresBeforeStatus is how many beats must fail in a row before the
	// extension calls itself unwell.
	failuresBeforeStatus = 3
)

// outcome is what became of a beat that was due.
type outcome string

const (
	accepted    outcome = "accepted"
	rejected    outcome = "rejected"
	unreachable outcome = "unreachable"
	skipped     outcome = "skipped"
	noSecret    outcome = "no_secret"
)

var outcomeSets = func() map[outcome]attribute.Set {
	sets := make(map[outcome]attribute.Set)
	for _, o := range []outcome{accepted, rejected, unreachable, skipped, noSecret} {
		sets[o] = attribute.NewSet(attribute.String("outcome", string(o)))
	}
	return sets
}()

// run beats until stopLoop, then once more if NotReady left a status. Component
// status is reported from here alone, and no longer once the collector stops.
func (h *heartbeat) run() {
	defer close(h.done)
	ticker := time.NewTicker(h.cfg.Interval)
	defer ticker.Stop()
	var streak streak
	for h.loop.Err() == nil {
		h.regularBeat(&streak)
		select {
		case <-ticker.C:
		case <-h.loop.Done():
		}
	}
	select {
	case last := <-h.farewell:
		ctx, cancel := context.WithTimeout(h.life, lastBeatTimeout)
		defer cancel()
		o, err := h.beat(ctx, last)
		h.count(o)
		if err != nil {
			h.set.Logger.Info("The last heartbeat was not delivered", fields(o, err)...)
		}
	default:
	}
}

// regularBeat makes one beat and tells of it: each in the metrics, changes in
// the log and, after failures in a row, in the component's status.
func (h *heartbeat) regularBeat(s *streak) {
	o, err := h.insist()
	if h.loop.Err() != nil && err != nil {
		return // cut off by the stop; the last beat follows
	}
	h.count(o)
	switch s.add(o) {
	case firstFailure:
		h.set.Logger.Warn("Heartbeat failed", fields(o, err)...)
	case unwell:
		err = fmt.Errorf("%d heartbeats in a row failed, the last one %s: %w", failuresBeforeStatus, o, err)
		componentstatus.ReportStatus(h.host, componentstatus.NewRecoverableErrorEvent(err))
	case recovered:
		h.set.Logger.Info("Heartbeat accepted again")
	case well:
		h.set.Logger.Info("Heartbeat accepted again")
		componentstatus.ReportStatus(h.host, componentstatus.NewEvent(componentstatus.StatusOK))
	case unchanged:
	}
}

// insist sends one beat, and again if it did not reach the server and the next one
// is not due yet. What counts is the last attempt.
func (h *heartbeat) insist() (outcome, error) {
	due, cancel := context.WithTimeout(h.loop, h.cfg.Interval)
	defer cancel()
	for n := 1; ; n++ {
		o, err := h.attempt(due)
		if n == attemptsPerBeat || !missed(o, err) {
			return o, err
		}
		part := h.cfg.Interval / retryParts
		select {
		case <-time.After(part + rand.N(part)):
		case <-due.Done():
			return o, err
		}
	}
}

func (h *heartbeat) attempt(due context.Context) (outcome, error) {
	ctx, cancel := context.WithTimeout(due, beatTimeout)
	defer cancel()
	return h.beat(ctx, h.body())
}

// missed reports whether a beat did not arrive, or at a server that could not take
// it. One that was refused would be refused again.
func missed(o outcome, err error) bool {
	var problem *controlapi.Problem
	return o == unreachable || errors.As(err, &problem) && problem.Status >= http.StatusInternalServerError
}

// beat sends one heartbeat. The error is nil exactly for accepted and skipped.
func (h *heartbeat) beat(ctx context.Context, hb *controlapi.Heartbeat) (outcome, error) {
	if hb.Status != controlapi.HealthOK && h.cfg.WhenUnhealthy == Skip {
		return skipped, nil
	}
	secret, err := h.cfg.secret()
	if err != nil {
		return noSecret, err
	}
	err = h.client.Heartbeat(ctx, secret, hb)
	switch {
	case err == nil:
		return accepted, nil
	case controlclient.Refused(err):
		return rejected, err
	default:
		return unreachable, err
	}
}

// change is what a beat changed about the extension's own state.
type change int

const (
	unchanged change = iota
	firstFailure
	unwell
	recovered
	well
)

// streak counts the beats that failed in a row. A skipped beat changes nothing.
type streak struct{ failures int }

func (s *streak) add(o outcome) change {
	switch o {
	case skipped:
		return unchanged
	case accepted:
		before := s.failures
		s.failures = 0
		switch {
		case before == 0:
			return unchanged
		case before < failuresBeforeStatus:
			return recovered
		default:
			return well
		}
	default:
		s.failures++
		switch s.failures {
		case 1:
			return firstFailure
		case failuresBeforeStatus:
			return unwell
		default:
			return unchanged
		}
	}
}
