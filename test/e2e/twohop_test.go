// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/test/testbed"
)

// quickRetries shortens the pauses that a test would wait for, and no bound on data.
// The batches of the regional operator still wait long enough to mix both senders.
const (
	quickCluster = `
exporters:
  otlp_grpc/operator: {retry_on_failure: {initial_interval: 100ms, max_interval: 500ms}, sending_queue: {batch: {flush_timeout: 100ms}}}
`
	quickRegional = `
exporters:
  otlp_grpc/central: {retry_on_failure: {initial_interval: 100ms, max_interval: 500ms}, sending_queue: {batch: {flush_timeout: 300ms}}}
`
	quickCentral = `
exporters:
  otlp_http/metrics: &quick {retry_on_failure: {initial_interval: 100ms, max_interval: 500ms}, sending_queue: {batch: {flush_timeout: 100ms}}}
  otlp_http/logs: *quick
  otlp_grpc/traces: *quick
`
)

// twoHops is the whole way of a record, from two applications to the sink.
type twoHops struct {
	*chain
	sink    *sink
	senders []*sender
}

func startTwoHops(t *testing.T) *twoHops {
	t.Helper()
	h := &twoHops{sink: newSink(t), chain: newChain(t, "CONTINUUM_QUEUE_STORAGE=file_storage", "CONTINUUM_QUEUE_RETRY=0s")}
	h.startCentral(t, quickCentral, h.sink.env()...)
	h.startRegional(t, quickRegional)
	for _, id := range chainClusters {
		h.startCluster(t, id, quickCluster)
		h.senders = append(h.senders, newSender(testbed.DialOTLP(t, h.otlp(id), nil), id))
	}
	h.await(t)
	return h
}

// progress waits until both applications have sent some more rounds, whether they
// arrive or not.
func (h *twoHops) progress(ctx context.Context, t *testing.T, rounds int64) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for _, s := range h.senders {
		for until := s.rounds.Load() + rounds; s.rounds.Load() < until; {
			select {
			case <-tick.C:
			case <-ctx.Done():
				t.Fatalf("%s cannot send: %v", s.cluster, context.Cause(ctx))
			}
		}
	}
}

// arrival waits until everything that was taken so far is at the sink.
func (h *twoHops) arrival(ctx context.Context, t *testing.T) {
	t.Helper()
	missing := map[string]bool{}
	for _, s := range h.senders {
		for round := range s.rounds.Load() {
			for _, signal := range signals {
				for n := range perRequest {
					missing[s.id(signal, round, n)] = true
				}
			}
		}
	}
	err := h.sink.await(ctx, func() bool {
		for id := range missing {
			if h.sink.arrived[id] > 0 {
				delete(missing, id)
			}
		}
		return len(missing) == 0
	})
	if err != nil {
		example := ""
		for example = range missing {
			break
		}
		t.Fatalf("%d records have not arrived, such as %s: %v", len(missing), example, err)
	}
}

// graceful are events of everyday operation: no record may be lost or doubled.
func (h *twoHops) graceful(ctx context.Context, t *testing.T) {
	central, regional := h.collectors[chainCentral], h.collectors[chainRegional]
	h.progress(ctx, t, 5)
	central.Stop() // the next hop of the regional operator is away, which restarts meanwhile
	h.progress(ctx, t, 5)
	regional.Stop()
	h.progress(ctx, t, 5)
	regional.Start()
	central.Start()
	h.arrival(ctx, t)
	h.sink.close(t) // now the stores are, and the central operator restarts
	h.progress(ctx, t, 5)
	central.Stop()
	central.Start()
	h.progress(ctx, t, 5)
	h.sink.open(t)
	h.arrival(ctx, t)
}

// crashes kill each operator, with the next hop there and away: no record may be
// lost.
func (h *twoHops) crashes(ctx context.Context, t *testing.T) {
	for _, id := range []string{chainRegional, chainCentral} {
		h.progress(ctx, t, 5)
		h.collectors[id].Kill()
		h.progress(ctx, t, 5)
		h.collectors[id].Start()
	}
	h.arrival(ctx, t)
	h.sink.close(t)
	h.progress(ctx, t, 5)
	h.collectors[chainCentral].Kill()
	h.progress(ctx, t, 5)
	h.collectors[chainRegional].Kill()
	h.collectors[chainRegional].Start()
	h.progress(ctx, t, 5)
	h.collectors[chainCentral].Start()
	h.sink.open(t)
	h.arrival(ctx, t)
}

// verify looks at every record that has arrived and returns how many did again.
func (h *twoHops) verify(t *testing.T) (repeated int) {
	t.Helper()
	h.sink.mu.Lock()
	defer h.sink.mu.Unlock()
	assert.Empty(t, h.sink.faults)
	t.Logf("%d records of %v arrived with their own origin and no other, %d of them again after a crash; %d requests held both senders",
		len(h.sink.arrived), h.sink.perOwner, h.sink.repeated, h.sink.mixed)
	return h.sink.repeated
}

// TestTwoHops sends forged records of two clusters through their collectors, a
// regional and a central operator with batches and queues on disk, while next hops
// go away, restart and crash: every record arrives and says its own origin, and
// nothing else does (ID-1 to ID-6, BD-10, A-17 to ). CONTINUUM_SOAK=1
// goes through all of it 20 times.
func TestTwoHops(t *testing.T) {
	if testing.Short() {
		t.Skip("starts four processes")
	}
	rounds, limit := 1, 10*time.Minute
	if testbed.Soak() {
		rounds, limit = 20, time.Hour
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	h := startTwoHops(t)
	stop := make(chan struct{})
	var sending sync.WaitGroup
	defer sending.Wait()
	defer cancel()
	for _, s := range h.senders {
		sending.Go(func() { assert.NoError(t, s.run(ctx, stop)) })
	}
	for range rounds {
		h.graceful(ctx, t)
	}
	require.NoError(t, h.sink.await(ctx, func() bool { return h.sink.mixed > 0 }), "no request held records of both senders")
	assert.Zero(t, h.verify(t), "records arrived twice without a crash")
	for range rounds {
		h.crashes(ctx, t)
	}
	close(stop)
	sending.Wait()
	h.arrival(ctx, t)
	h.verify(t)
}
