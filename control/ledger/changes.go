// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import "sync"

// broadcaster wakes everyone who waits for a change. The zero value is ready.
type broadcaster struct {
	mu      sync.Mutex
	waiting map[chan struct{}]struct{} // guarded by mu
}

// Changes returns a channel that gets a value after every commit that drew a
// change number, here or at another server of the same database. Several changes
// may show as one. cancel ends it.
func (s *Store) Changes() (c <-chan struct{}, cancel func()) {
	return s.changes.subscribe()
}

func (b *broadcaster) subscribe() (<-chan struct{}, func()) {
	c := make(chan struct{}, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting == nil {
		b.waiting = map[chan struct{}]struct{}{}
	}
	b.waiting[c] = struct{}{}
	return c, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.waiting, c)
	}
}

func (b *broadcaster) wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.waiting {
		select {
		case c <- struct{}{}:
		default: // it has not taken the last one yet: one wake-up does for both
		}
	}
}
