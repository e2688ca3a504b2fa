// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ikhnosrenew

import (
	"context"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
)

// reporter reports the component status from a goroutine of its own, because the
// service holds a lock while it hands a status on. It reports changes alone, and
// never anything worse than a recoverable error.
type reporter struct {
	host component.Host // set before run

	wake chan struct{} // holds at most one

	mu    sync.Mutex
	fault error // guarded by mu
}

func newReporter() *reporter { return &reporter{wake: make(chan struct{}, 1)} }

// set notes the present fault, nil for none, and returns at once.
func (r *reporter) set(fault error) {
	r.mu.Lock()
	r.fault = fault
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// run reports until ctx ends. The service itself has reported OK after Start.
func (r *reporter) run(ctx context.Context) {
	reported := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		}
		r.mu.Lock()
		fault := r.fault
		r.mu.Unlock()
		text := ""
		event := componentstatus.NewEvent(componentstatus.StatusOK)
		if fault != nil {
			text = fault.Error()
			event = componentstatus.NewRecoverableErrorEvent(fault)
		}
		if text != reported {
			reported = text
			componentstatus.ReportStatus(r.host, event)
		}
	}
}
