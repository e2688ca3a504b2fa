// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certnameauth

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// drainTime is how long a request is held at most once the collector is
// stopping.
const drainTime = 5 * time.Second

// errHeld is the cause of a request that was ended here.
var errHeld = errors.New("held longer than request_timeout")

// holds are the limits of all requests of an extension.
type holds struct {
	timeout   time.Duration
	now       func() time.Time
	stoppedAt atomic.Int64 // Unix nanoseconds; 0 while the collector runs
}

// stopping shortens every request, those under way included.
func (l *holds) stopping() { l.stoppedAt.CompareAndSwap(0, l.now().UnixNano()) }

// end is when a request that came at start is ended.
func (l *holds) end(start time.Time) time.Time {
	end := start.Add(l.timeout)
	if stopped := l.stoppedAt.Load(); stopped != 0 {
		drain := time.Unix(0, stopped)
		if start.After(drain) {
			drain = start
		}
		if drain = drain.Add(drainTime); drain.Before(end) {
			end = drain
		}
	}
	return end
}

// hold is the context of one request. It ends when the request was held too
// long, from its headers on, whether or not its body ever came. A timer looks
// at least every drainTime, so that stopping needs no list of requests and no
// lock between them.
type hold struct {
	context.Context

	limits  *holds
	start   time.Time
	cancel  context.CancelCauseFunc
	entered atomic.Bool // the body has come
	counted atomic.Bool

	mu    sync.Mutex
	watch watcher     // guarded by mu
	timer *time.Timer // guarded by mu
	done  bool        // guarded by mu
}

type holdKey struct{}

// watcher hears of a request that takes long; neither is called once it was
// answered.
type watcher interface {
	// slow is called every few seconds with the end that is known then.
	slow(end time.Time)
	// expire is called once, when the context has ended.
	expire(h *hold)
}

// begin starts the hold of a request. watch may be nil.
func (l *holds) begin(ctx context.Context, watch watcher) *hold {
	h := &hold{limits: l, watch: watch, start: l.now()}
	h.Context, h.cancel = context.WithCancelCause(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.timer = time.AfterFunc(h.untilLook(), h.look)
	return h
}

// holdOf is the hold that ctx belongs to, or nil.
func holdOf(ctx context.Context) *hold {
	h, _ := ctx.Value(holdKey{}).(*hold)
	return h
}

func (h *hold) untilLook() time.Duration {
	return min(h.limits.end(h.start).Sub(h.limits.now()), drainTime)
}

// look ends the request when its time has come.
func (h *hold) look() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.done || h.Context.Err() != nil {
		return
	}
	left := h.untilLook()
	if left > 0 {
		if h.watch != nil {
			h.watch.slow(h.limits.end(h.start))
		}
		h.timer.Reset(left)
		return
	}
	h.cancel(errHeld)
	if h.watch != nil {
		h.watch.expire(h)
	}
}

// finish is called when the request was answered. A queue may keep the context
// long after, so it lets go of the request.
func (h *hold) finish() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.done, h.watch = true, nil
	h.timer.Stop()
	h.cancel(nil)
}

// expired says that the request was ended here and not by its caller.
func (h *hold) expired() bool { return errors.Is(context.Cause(h.Context), errHeld) }

// once is true for the first who counts the request.
func (h *hold) once() bool { return h.counted.CompareAndSwap(false, true) }

// Err tells a request that was held too long from one that its caller left.
// gRPC compares with this very value: any other makes senders drop their data.
func (h *hold) Err() error {
	if h.expired() {
		return context.DeadlineExceeded
	}
	return h.Context.Err()
}

// Deadline is the end that is known now, or the caller's when that is earlier.
func (h *hold) Deadline() (time.Time, bool) {
	end := h.limits.end(h.start)
	if theirs, ok := h.Context.Deadline(); ok && theirs.Before(end) {
		return theirs, true
	}
	return end, true
}

// Value finds the hold itself beside what the request's context has.
func (h *hold) Value(key any) any {
	if _, ok := key.(holdKey); ok {
		return h
	}
	return h.Context.Value(key)
}
