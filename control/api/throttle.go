// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"net/netip"
	"sync"
	"time"
)

// Bounds of the failure throttle (contract, section 4: Limits).
const (
	failuresPerWindow = 30
	failureWindow     = time.Minute
	maxThrottled      = 1 << 16 // addresses remembered
)

// throttle counts failed authentications by address. It is asked only after a
// check has failed, so a right credential is never throttled.
type throttle struct {
	now func() time.Time

	mu      sync.Mutex
	windows map[netip.Prefix]window // guarded by mu
}

// window is one minute of failures, from the first of them.
type window struct {
	ends     time.Time
	failures int
}

func newThrottle(now func() time.Time) *throttle {
	return &throttle{now: now, windows: map[netip.Prefix]window{}}
}

// fail counts one failure of address. wait is positive when it is one too many:
// how long until failures are answered again.
func (t *throttle) fail(address netip.Addr) (wait time.Duration) {
	key := throttleKey(address)
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	w, known := t.windows[key]
	if !known && len(t.windows) >= maxThrottled {
		t.dropEnded(now)
	}
	if !known || !now.Before(w.ends) || w.ends.After(now.Add(failureWindow)) { // after: the clock was set back
		w = window{ends: now.Add(failureWindow)}
	}
	w.failures++
	t.windows[key] = w
	if w.failures <= failuresPerWindow {
		return 0
	}
	return w.ends.Sub(now)
}

// dropEnded makes room; when nothing has ended everything goes, which costs an
// attacker with so many addresses nothing and bounds our memory.
func (t *throttle) dropEnded(now time.Time) {
	for key, w := range t.windows {
		if !now.Before(w.ends) {
			delete(t.windows, key)
		}
	}
	if len(t.windows) >= maxThrottled {
		clear(t.windows)
	}
}

// throttleKey is the address itself, of IPv6 its /64.
func throttleKey(address netip.Addr) netip.Prefix {
	address = address.Unmap()
	bits := address.BitLen()
	if address.Is6() {
		bits = 64
	}
	prefix, err := address.WithZone("").Prefix(bits)
	if err != nil {
		return netip.Prefix{} // all callers without a readable address share one count
	}
	return prefix
}
