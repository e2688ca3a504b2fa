// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certnameauth

import (
	"errors"
	"fmt"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
)

// fault is a place where something can be wrong. Of several the first is shown.
type fault uint8

const (
	faultRevoked fault = iota // the operator was revoked
	faultPolicy               // the server's policy cannot be taken
	faultMissing              // no policy yet
	faultStale
	faultCache // the cache file cannot be read or written
	faultCRL
	faults
)

// Words that open a component status (contract, section 9).
var (
	errOperatorRevoked = errors.New("operator_revoked: the policy accepts nobody")
	errStale           = errors.New("policy_stale: the server has not confirmed the policy for longer than max_staleness")
	errMissing         = errors.New("policy_not_loaded: there is no sender policy yet")
)

// health is what is wrong now. Any goroutine may set it; one reports it.
type health struct {
	changed signal

	mu     sync.Mutex
	errs   [faults]error // guarded by mu
	shown  string        // guarded by mu: what was reported last; "" is OK
	detail error         // guarded by mu: the last failed fetch
}

// set notes a fault, or with nil that it is over. It reports whether its text is
// another one than before, so that a caller logs changes alone.
func (h *health) set(f fault, err error) (changed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	changed = text(h.errs[f]) != text(err)
	h.errs[f] = err
	if changed {
		h.changed.raise()
	}
	return changed
}

// fetched notes how the last fetch of the policy failed, or nil.
func (h *health) fetched(err error) (changed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	changed = text(h.detail) != text(err)
	h.detail = err
	return changed
}

// next returns the event to report when the status is another one than was
// reported last. Every fault can pass, so none is permanent.
func (h *health) next() *componentstatus.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	var worst error
	for _, err := range h.errs {
		if err != nil {
			worst = err
			break
		}
	}
	if errors.Is(worst, errMissing) && h.detail != nil {
		worst = fmt.Errorf("%w: %w", errMissing, h.detail)
	}
	if text(worst) == h.shown {
		return nil
	}
	h.shown = text(worst)
	if worst == nil {
		return componentstatus.NewEvent(componentstatus.StatusOK)
	}
	return componentstatus.NewRecoverableErrorEvent(worst)
}

func (h *health) report(host component.Host) {
	if event := h.next(); event != nil {
		componentstatus.ReportStatus(host, event)
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
