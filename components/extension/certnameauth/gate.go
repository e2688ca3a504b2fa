// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certnameauth

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/client"

	"github.com/ikhnos/continuum/components/extension/certnameauth/internal/senders"
	"github.com/ikhnos/continuum/internal/identity"
)

// gate decides about requests of both protocols and counts them. Everything a
// request does here is without I/O and without a lock that could wait for some.
type gate struct {
	holds
	list         atomic.Pointer[senders.List]
	contact      atomic.Int64  // Unix nanoseconds of the server's last confirmation
	maxStaleness time.Duration // 0: never stale
	counter      *counter
	log          *refusalLog
	taps         tapBudget

	refresh signal // a newer policy may know this sender
	report  signal // the server should hear of something at once
	rekeyed signal // a sender was accepted with a leaf that replaces others
}

// decide judges a request by the list of this moment.
func (g *gate) decide(leaf *x509.Certificate) senders.Decision {
	now := g.now()
	d := g.list.Load().Decide(leaf, now, g.staleAt(now))
	if d.Reason == senders.NotYetKnown {
		g.refresh.raise()
	}
	return d
}

func (g *gate) staleAt(now time.Time) bool {
	return g.maxStaleness > 0 && now.UnixNano()-g.contact.Load() > int64(g.maxStaleness)
}

// enter notes that an accepted request enters the pipeline now.
func (g *gate) enter(d senders.Decision, leaf *x509.Certificate) {
	if d.Enter(leaf, g.now()) {
		g.rekeyed.raise()
		g.report.raise()
	}
}

// refuse counts and logs a refusal, once per request, and returns its answer. h
// may be nil.
func (g *gate) refuse(h *hold, d senders.Decision, transport transport, leaf *x509.Certificate, peer string) *refusal {
	f := &refusals[d.Reason]
	if h != nil && !h.once() {
		return f
	}
	var stats *senders.Stats
	if d.Sender != nil {
		stats = d.Sender.Stats
	}
	g.counter.add(stats, transport, d.Reason)
	if stats != nil && stats.CountRefused(d.Reason, g.now().UnixMilli()) {
		g.report.raise()
	}
	g.log.note(stats, d.Reason, leaf, peer)
	return f
}

// accept counts a request that the pipeline has answered, whatever it said.
func (g *gate) accept(h *hold, d senders.Decision, transport transport, signal senders.Signal) {
	if h.once() {
		d.Sender.Stats.CountAccepted(signal)
		g.counter.add(d.Sender.Stats, transport, senders.Accepted)
	}
}

// timedOut is the decision on a request that was accepted and then held too long.
func timedOut(d senders.Decision) senders.Decision {
	return senders.Decision{Reason: senders.Timeout, Sender: d.Sender}
}

// verifiedLeaf is the leaf of the chain that the handshake verified: never
// another certificate that the peer sent along. Nil when there is none.
func verifiedLeaf(state *tls.ConnectionState) *x509.Certificate {
	if state == nil || len(state.VerifiedChains) == 0 || len(state.VerifiedChains[0]) == 0 {
		return nil
	}
	return state.VerifiedChains[0][0]
}

// withAuth puts the identity into the request's client.Info and keeps what
// stands there already.
func withAuth(ctx context.Context, auth *identity.AuthData) context.Context {
	info := client.FromContext(ctx)
	info.Auth = auth
	return client.NewContext(ctx, info)
}
