// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"

	"github.com/ikhnos/continuum/internal/controlapi"
)

// recoverableGrace is how long a component may be in a recoverable error before
// the collector counts as unhealthy.
const recoverableGrace = 60 * time.Second

// health keeps the components that are in an error state. The service reports
// every change with its reporter's mutex held, so observe only notes it.
type health struct {
	mu     sync.Mutex
	faults map[componentstatus.InstanceID]fault // guarded by mu
}

// fault is one component's error and the time at which it began.
type fault struct {
	permanent bool
	since     time.Time
}

// observe notes that a component changed its status. Extensions do not count:
// one that cannot reach its server must not make a collector that relays look ill.
func (h *health) observe(source componentstatus.InstanceID, status componentstatus.Status, now time.Time) {
	switch source.Kind() {
	case component.KindReceiver, component.KindProcessor, component.KindExporter, component.KindConnector:
	default:
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch status {
	case componentstatus.StatusRecoverableError:
		if _, known := h.faults[source]; !known {
			h.put(source, fault{since: now})
		}
	case componentstatus.StatusPermanentError, componentstatus.StatusFatalError:
		h.put(source, fault{permanent: true, since: now})
	default:
		delete(h.faults, source)
	}
}

// put needs mu.
func (h *health) put(source componentstatus.InstanceID, f fault) {
	if h.faults == nil {
		h.faults = make(map[componentstatus.InstanceID]fault)
	}
	h.faults[source] = f
}

// status returns the worst state of all components at now.
func (h *health) status(now time.Time) controlapi.HealthStatus {
	h.mu.Lock()
	defer h.mu.Unlock()
	worst := controlapi.HealthOK
	for _, f := range h.faults {
		if f.permanent {
			return controlapi.HealthPermanentError
		}
		if now.Sub(f.since) >= recoverableGrace {
			worst = controlapi.HealthRecoverableError
		}
	}
	return worst
}
