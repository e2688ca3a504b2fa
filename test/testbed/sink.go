// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"fmt"
	"maps"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ikhnos/continuum/control/cli/demo"
)

// Sink is an OTLP/gRPC receiver in this process, in clear on loopback, that counts
// every record by its id: a log record's body, a span's or a metric's name. It can
// be told to refuse, or to be down, and counts on over both.
type Sink struct {
	Address string // host:port

	t        testing.TB
	refusing atomic.Uint32 // code, 0 while it accepts
	refused  atomic.Int64
	onRecord func(demo.Record)
	order    sync.Mutex // one call of onRecord at a time

	mu      sync.Mutex // guards what follows
	counts  map[string]int
	changed chan struct{} // closed and replaced when records arrive
	sink    *demo.Sink    // nil while down
	serving sync.WaitGroup
}

// StartSink starts a sink on a free port. It ends with the test. onRecord, which
// may be nil, gets every record with its attributes, one after the other.
func StartSink(t testing.TB, onRecord func(demo.Record)) *Sink {
	t.Helper()
	s := &Sink{Address: Address(t), t: t, onRecord: onRecord, counts: map[string]int{}, changed: make(chan struct{})}
	s.Up()
	t.Cleanup(s.Down)
	return s
}

// Up listens again after Down.
func (s *Sink) Up() {
	s.t.Helper()
	var listener net.Listener
	Eventually(s.t, "the sink's port", func(context.Context) (err error) {
		listener, err = net.Listen("tcp", s.Address)
		return err
	})
	sink := demo.NewSink(time.Now, s.record, grpc.UnaryInterceptor(s.admit), grpc.WaitForHandlers(true))
	s.mu.Lock()
	s.sink = sink
	s.mu.Unlock()
	s.serving.Go(func() { _ = sink.Serve(listener) }) // ends with Down
}

// Down closes the port and every connection; no record is counted after it.
func (s *Sink) Down() {
	s.mu.Lock()
	sink := s.sink
	s.sink = nil
	s.mu.Unlock()
	if sink != nil {
		sink.Stop()
		s.serving.Wait()
	}
}

// Refuse answers every request with a code from now on: Unavailable is retried by
// senders, PermissionDenied or InvalidArgument makes them drop. OK accepts again.
func (s *Sink) Refuse(code codes.Code) { s.refusing.Store(uint32(code)) }

// Refused is how many requests were refused so far.
func (s *Sink) Refused() int64 { return s.refused.Load() }

func (s *Sink) admit(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if code := codes.Code(s.refusing.Load()); code != codes.OK {
		s.refused.Add(1)
		return nil, status.Error(code, "the sink refuses")
	}
	return handler(ctx, req)
}

func (s *Sink) record(r demo.Record) {
	s.mu.Lock()
	s.counts[r.Summary]++
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
	if s.onRecord != nil {
		s.order.Lock()
		defer s.order.Unlock()
		s.onRecord(r)
	}
}

// Count is how often a record arrived.
func (s *Sink) Count(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[id]
}

// Counts is how often each record arrived.
func (s *Sink) Counts() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.counts)
}

// Wait waits until every id has arrived; it fails the test with those that are
// missing after five minutes.
func (s *Sink) Wait(ids ...string) {
	s.t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for missing := ids; ; {
		var changed <-chan struct{}
		if missing, changed = s.missing(missing); len(missing) == 0 {
			return
		}
		select {
		case <-changed:
		case <-timer.C:
			require.Fail(s.t, fmt.Sprintf("%d of %d records did not arrive, the first: %q", len(missing), len(ids), missing[0]))
		case <-s.t.Context().Done():
			require.NoError(s.t, s.t.Context().Err())
		}
	}
}

func (s *Sink) missing(ids []string) ([]string, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var missing []string
	for _, id := range ids {
		if s.counts[id] == 0 {
			missing = append(missing, id)
		}
	}
	return missing, s.changed
}
