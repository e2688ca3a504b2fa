// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package senders

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/ikhnos/continuum/internal/controlapi"
)

// Signal is what a request carried.
type Signal uint8

// Signals that reports count apart; any other is counted in metrics alone.
const (
	OtherSignal Signal = iota
	Traces
	Metrics
	Logs

	signals
)

// Stats are the counters of one sender since start. All fields are written by
// requests at once.
type Stats struct {
	Name string

	accepted       [signals]atomic.Int64
	refused        [Reasons]atomic.Int64
	lastAcceptedMs atomic.Int64
	firstRefusedMs atomic.Int64
	leafExpiry     atomic.Int64 // Unix seconds of the leaf last accepted
	serial         atomic.Pointer[string]
}

// enter notes that a request entered the pipeline.
func (s *Stats) enter(serial *string, notAfterUnix, nowMs int64) {
	if s.serial.Load() != serial {
		s.serial.Store(serial)
		s.leafExpiry.Store(notAfterUnix)
	}
	s.lastAcceptedMs.Store(nowMs)
}

// CountAccepted counts a request that was answered by the pipeline.
func (s *Stats) CountAccepted(signal Signal) { s.accepted[signal].Add(1) }

// CountRefused counts a refusal and reports whether it is the first by which
// the policy in force cut this sender off.
func (s *Stats) CountRefused(r Reason, nowMs int64) (first bool) {
	s.refused[r].Add(1)
	return !r.Retryable() && s.firstRefusedMs.Load() == 0 && s.firstRefusedMs.CompareAndSwap(0, nowMs)
}

// LeafExpiry is when the leaf that was last accepted ends, in Unix seconds; 0
// before the first.
func (s *Stats) LeafExpiry() int64 { return s.leafExpiry.Load() }

// Report is the sender's line of a report. ok is false when there is nothing to
// tell.
func (s *Stats) Report() (line controlapi.ReportSender, ok bool) {
	line = controlapi.ReportSender{
		Name:             s.Name,
		LastAcceptedAtMs: s.lastAcceptedMs.Load(),
		FirstRefusedAtMs: s.firstRefusedMs.Load(),
		Accepted: controlapi.SignalCounts{
			Traces: s.accepted[Traces].Load(), Metrics: s.accepted[Metrics].Load(), Logs: s.accepted[Logs].Load(),
		},
	}
	if serial := s.serial.Load(); serial != nil {
		line.Serial = *serial
	}
	if line.LastAcceptedAtMs != 0 {
		at := controlapi.Seconds(time.UnixMilli(line.LastAcceptedAtMs))
		line.LastAcceptedAt = &at
		ok = true
	}
	for r := range Reasons {
		if n := s.refused[r].Load(); n > 0 {
			if line.Refused == nil {
				line.Refused = map[string]int64{}
			}
			line.Refused[r.String()] = n
			ok = true
		}
	}
	return line, ok
}

// Registry holds the counters of every sender that was ever listed. They stay
// when a sender leaves the list: a report still tells what it did.
type Registry struct {
	mu  sync.Mutex
	all map[string]*Stats // guarded by mu
}

// Of returns the counters of a sender by its canonical name.
func (r *Registry) Of(name string) *Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[string]*Stats{}
	}
	s := r.all[name]
	if s == nil {
		s = &Stats{Name: name}
		r.all[name] = s
	}
	return s
}

// All returns the counters in no order.
func (r *Registry) All() []*Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]*Stats, 0, len(r.all))
	for _, s := range r.all {
		all = append(all, s)
	}
	return all
}

// NewNumber forgets first refusals: they belong to the policy number that is no
// longer in force.
func (r *Registry) NewNumber() {
	for _, s := range r.All() {
		s.firstRefusedMs.Store(0)
	}
}
