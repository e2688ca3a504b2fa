// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package continuumidentity

import (
	"sync"
	"time"

	"go.uber.org/zap"
)

// logInterval is the least time between two lines about the same thing.
const logInterval = time.Minute

// maxLogTopics bounds what conflictLog remembers.
const maxLogTopics = 4096

// conflictLog writes at most one line a minute about each thing that a sender
// does again and again, with the number of times since the last.
type conflictLog struct {
	logger *zap.Logger
	now    func() time.Time
	mu     sync.Mutex
	topics map[topic]*since // guarded by mu
}

// topic is made of names of our own and of authenticated senders, never of data.
type topic struct{ sender, signal, what, action string }

type since struct {
	next  time.Time // no line before
	count int64     // since the last line
}

func newConflictLog(logger *zap.Logger, now func() time.Time) *conflictLog {
	return &conflictLog{logger: logger, now: now, topics: make(map[topic]*since)}
}

// conflicts is told of n resources with a claim that is not the sender's to make.
func (l *conflictLog) conflicts(sender, signal, key, action string, n int64) {
	if count := l.due(topic{sender, signal, key, action}, n); count > 0 {
		l.logger.Warn("Resources claim an identity that their sender does not have",
			zap.String("sender", sender), zap.String("signal", signal), zap.String("key", key),
			zap.String("action", action), zap.Int64("count", count))
	}
}

// refused is told of a request that was not passed on.
func (l *conflictLog) refused(sender, signal, reason string) {
	if count := l.due(topic{sender, signal, reason, ""}, 1); count > 0 {
		l.logger.Warn("Request refused", zap.String("sender", sender), zap.String("signal", signal),
			zap.String("reason", reason), zap.Int64("count", count))
	}
}

// due adds n to a topic and returns the number to write down, 0 when no line is
// due.
func (l *conflictLog) due(t topic, n int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	s := l.topics[t]
	if s == nil {
		if len(l.topics) >= maxLogTopics {
			clear(l.topics)
		}
		s = &since{}
		l.topics[t] = s
	}
	s.count += n
	if now.Before(s.next) {
		return 0
	}
	n, s.count, s.next = s.count, 0, now.Add(logInterval)
	return n
}
