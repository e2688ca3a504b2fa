// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certnameauth

import (
	"context"
	"crypto/x509"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/ikhnos/continuum/components/extension/certnameauth/internal/senders"
)

const (
	logEvery   = time.Minute
	logBacklog = 256
	logNames   = 4 // names of a certificate shown in one line
)

// refusalLog writes one line a minute for each pair of sender and reason, with
// the count since the last. Requests only count and hand over; a goroutine
// writes.
type refusalLog struct {
	logger *zap.Logger
	now    func() time.Time
	pairs  sync.Map // pairKey → *pair
	lines  chan line
}

type pairKey struct {
	stats  *senders.Stats
	reason senders.Reason
}

// pair is what is not yet written of one sender and reason.
type pair struct {
	count   atomic.Int64
	written atomic.Int64 // Unix milliseconds of the last line; 0 before the first
}

// line is a pair whose turn has come, with an example.
type line struct {
	key  pairKey
	pair *pair
	leaf *x509.Certificate
	peer string
}

func newRefusalLog(logger *zap.Logger, now func() time.Time) *refusalLog {
	return &refusalLog{logger: logger, now: now, lines: make(chan line, logBacklog)}
}

// note counts a refusal and hands a line over when the pair has none this
// minute. It never waits: when the writer is behind, a later refusal tries again.
func (l *refusalLog) note(stats *senders.Stats, reason senders.Reason, leaf *x509.Certificate, peer string) {
	key := pairKey{stats, reason}
	value, ok := l.pairs.Load(key)
	if !ok {
		value, _ = l.pairs.LoadOrStore(key, new(pair))
	}
	p := value.(*pair)
	p.count.Add(1)
	written, now := p.written.Load(), l.now().UnixMilli()
	if written != 0 && now-written < logEvery.Milliseconds() || !p.written.CompareAndSwap(written, now) {
		return
	}
	select {
	case l.lines <- line{key, p, leaf, peer}:
	default:
		p.written.Store(written)
	}
}

// run writes until ctx ends, then what is left.
func (l *refusalLog) run(ctx context.Context) {
	ticker := time.NewTicker(logEvery)
	defer ticker.Stop()
	for {
		select {
		case line := <-l.lines:
			l.write(line)
		case <-ticker.C:
			l.sweep(l.now().Add(-logEvery))
		case <-ctx.Done():
			for len(l.lines) > 0 {
				l.write(<-l.lines)
			}
			l.sweep(l.now())
			return
		}
	}
}

// sweep writes the counts of pairs that were not written since before and have
// fallen silent.
func (l *refusalLog) sweep(before time.Time) {
	l.pairs.Range(func(key, value any) bool {
		p := value.(*pair)
		if p.count.Load() > 0 && p.written.Load() <= before.UnixMilli() {
			p.written.Store(l.now().UnixMilli())
			l.write(line{key: key.(pairKey), pair: p})
		}
		return true
	})
}

func (l *refusalLog) write(n line) {
	count := n.pair.count.Swap(0)
	if count == 0 {
		return
	}
	fields := []zap.Field{
		zap.String("reason", n.key.reason.String()),
		zap.String("sender", senderName(n.key.stats)),
		zap.Int64("count", count),
		zap.Bool("data_kept_by_sender", n.key.reason.Retryable()),
		zap.String("explanation", sentences[n.key.reason]),
	}
	if n.peer != "" {
		fields = append(fields, zap.String("peer", n.peer))
	}
	if n.leaf != nil {
		fields = append(fields, zap.Strings("certificate_names", namesOf(n.leaf)),
			zap.String("certificate_serial", senders.SerialText(n.leaf.SerialNumber)),
			zap.Time("certificate_not_after", n.leaf.NotAfter))
	}
	l.logger.Warn("Requests refused", fields...)
}

// namesOf shows by what names a certificate was looked for.
func namesOf(leaf *x509.Certificate) []string {
	names := append([]string{}, leaf.DNSNames...)
	for _, uri := range leaf.URIs {
		names = append(names, uri.String())
	}
	if leaf.Subject.CommonName != "" {
		names = append(names, "CN="+leaf.Subject.CommonName)
	}
	return names[:min(len(names), logNames)]
}
