// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package load

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ikhnos/continuum/internal/process"
)

// result is what one turn measured.
type result struct {
	took              time.Duration
	times             []time.Duration // of each request, sorted
	server, generator time.Duration   // processor time that the turn cost
}

// rate is in requests a second.
func (r result) rate() float64 { return float64(len(r.times)) / r.took.Seconds() }

// quantile returns the smallest time that the share q of the requests kept.
func (r result) quantile(q float64) time.Duration {
	if len(r.times) == 0 {
		return 0
	}
	return r.times[min(int(q*float64(len(r.times))), len(r.times)-1)]
}

// ms is a time in milliseconds, for printing.
func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}

// add makes r a turn of all requests of both, made one after the other.
func (r *result) add(other result) {
	r.took += other.took
	r.times = append(r.times, other.times...)
	slices.Sort(r.times)
	r.server += other.server
	r.generator += other.generator
}

// cost is the processor time of one request in microseconds.
func (r result) cost(of time.Duration) float64 {
	return float64(of.Microseconds()) / float64(max(len(r.times), 1))
}

// measure calls one for 0 to n-1 by workers goroutines; one reports each request
// it made through done with the time it began. The first error ends the turn.
func measure(ctx context.Context, p *process.Process, workers, n int, one func(ctx context.Context, worker, i int, done func(began time.Time)) error) (result, error) {
	var mu sync.Mutex
	var r result
	began, server, generator := time.Now(), p.CPU(), ownCPU()
	err := parallel(ctx, workers, n, func(ctx context.Context, worker, i int) error {
		var mine []time.Duration
		err := one(ctx, worker, i, func(began time.Time) { mine = append(mine, time.Since(began)) })
		mu.Lock()
		defer mu.Unlock()
		r.times = append(r.times, mine...)
		return err
	})
	r.took, r.server, r.generator = time.Since(began), p.CPU()-server, ownCPU()-generator
	slices.Sort(r.times)
	return r, err
}

// parallel calls fn for 0 to n-1 by workers goroutines and returns the first
// error, after which nothing new is begun.
func parallel(ctx context.Context, workers, n int, fn func(ctx context.Context, worker, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := fn(ctx, worker, i); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}
