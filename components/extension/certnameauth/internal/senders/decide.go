// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package senders

import (
	"crypto/x509"
	"encoding/asn1"
	"hash/maphash"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/identity"
)

// Backdate is how long before its issue a leaf becomes valid (contract, 3).
const Backdate = 10 * time.Minute

// Decision is the outcome for one request. Sender is nil when no sender of the
// list has a name on the leaf; Auth is set exactly when Reason is Accepted.
type Decision struct {
	Reason Reason
	Sender *Sender
	Auth   *identity.AuthData

	replaces bool // accepted with a leaf that replaces others of its sender
}

// Enter notes that the request enters the pipeline. cutOff says that it is the
// first with a leaf that replaces others: those are refused from now on.
func (d Decision) Enter(leaf *x509.Certificate, now time.Time) (cutOff bool) {
	d.Sender.Stats.enter(&d.Auth.Serial, leaf.NotAfter.Unix(), now.UnixMilli())
	return d.replaces && !d.Sender.cut.Load() && d.Sender.cut.CompareAndSwap(false, true)
}

// verdict is what one leaf gets for the life of a list, the passing of time and
// replaced leaves left aside.
type verdict struct {
	leaf     *x509.Certificate
	notAfter time.Time
	reason   Reason
	sender   *Sender
	auth     *identity.AuthData
	rekeyed  bool // the sender has replaced leaves
	replaced bool // and this is one of them
}

// Decide judges a request by its leaf, nil when there is no verified one. stale
// says that the policy is older than allowed. The common case takes no lock and
// allocates nothing.
func (l *List) Decide(leaf *x509.Certificate, now time.Time, stale bool) Decision {
	if leaf == nil {
		return Decision{Reason: NotVerified}
	}
	v := l.cache.load(leaf)
	if v == nil {
		v = l.judge(leaf)
		l.cache.store(v)
	}
	switch {
	case now.After(v.notAfter):
		return Decision{Reason: Ended, Sender: v.sender}
	case !l.source.Loaded:
		return Decision{Reason: NotLoaded}
	case stale:
		return Decision{Reason: Stale, Sender: v.sender}
	}
	return l.atTime(v, now)
}

// atTime adds what depends on the moment: replaced leaves.
func (l *List) atTime(v *verdict, now time.Time) Decision {
	s := v.sender
	if !v.rekeyed {
		return Decision{Reason: v.reason, Sender: s, Auth: v.auth}
	}
	over := v.replaced && (s.cut.Load() || now.After(s.replacedUntil))
	if over && (v.reason == Accepted || v.reason == SenderRevoked || v.reason == SenderHeld) {
		return Decision{Reason: CertificateRevoked, Sender: s}
	}
	return Decision{Reason: v.reason, Sender: s, Auth: v.auth, replaces: v.reason == Accepted && !v.replaced}
}

// judge finds the verdict for a leaf in the order of the contract.
func (l *List) judge(leaf *x509.Certificate) *verdict {
	sender, ambiguous := l.find(leaf)
	v := &verdict{leaf: leaf, notAfter: leaf.NotAfter, sender: sender}
	switch {
	case l.source.DenyAll:
		v.reason = OperatorRevoked
	case ambiguous:
		v.reason, v.sender = Ambiguous, nil
	case !clientOnly(leaf):
		v.reason = Usage
	case sender == nil && l.younger(leaf):
		v.reason = NotYetKnown
	case sender == nil:
		v.reason = Unknown
	case !agrees(leaf, sender):
		v.reason = Mismatch
	case l.isRevoked(leaf):
		v.reason = CertificateRevoked
	case sender.State == controlapi.SenderAllowed:
		v.auth = &identity.AuthData{Sender: &sender.Sender, Serial: SerialText(leaf.SerialNumber)}
	case sender.State == controlapi.SenderHeld:
		v.reason = SenderHeld
	default: // revoked, or a state that this release does not know
		v.reason = SenderRevoked
	}
	if v.sender != nil && sender.replaced != nil {
		v.rekeyed = true
		_, v.replaced = sender.replaced[SerialOf(leaf.SerialNumber)]
	}
	return v
}

// find returns the one sender that the leaf's names belong to. Names without a
// sender are ignored; two common names, or names of two senders, are ambiguous.
func (l *List) find(leaf *x509.Certificate) (found *Sender, ambiguous bool) {
	take := func(s *Sender) {
		if s == nil {
			return
		}
		ambiguous = ambiguous || s == shared || found != nil && found != s
		found = s
	}
	if l.source.Match.DNS {
		for _, name := range leaf.DNSNames {
			take(l.names[Canonical(name)])
		}
	}
	if l.source.Match.URI {
		for _, uri := range leaf.URIs {
			take(l.uris[canonicalURL(uri)])
		}
	}
	names := commonNames(leaf)
	if l.source.Match.CommonName {
		for _, name := range names {
			take(l.names[Canonical(name)])
		}
	}
	ambiguous = ambiguous || len(names) > 1
	if ambiguous {
		return nil, true
	}
	return found, false
}

var oidCommonName = asn1.ObjectIdentifier{2, 5, 4, 3}

// commonNames are all of them: x509 shows the last one alone.
func commonNames(leaf *x509.Certificate) []string {
	var names []string
	for _, attribute := range leaf.Subject.Names {
		if attribute.Type.Equal(oidCommonName) {
			name, _ := attribute.Value.(string)
			names = append(names, name)
		}
	}
	return names
}

// clientOnly: clientAuth and neither serverAuth nor a usage that includes it.
func clientOnly(leaf *x509.Certificate) bool {
	return !leaf.IsCA &&
		slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageClientAuth) &&
		!slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageServerAuth) &&
		!slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageAny)
}

// agrees compares every URI of our form with the sender's own, whatever names
// are matched: it carries operator, kind and id.
func agrees(leaf *x509.Certificate, s *Sender) bool {
	return !slices.ContainsFunc(leaf.URIs, func(u *url.URL) bool {
		_, _, _, ours := identity.ParseSenderURI(u)
		return ours && canonicalURL(u) != s.uri
	})
}

// younger: the leaf was issued after the policy, so the next policy may name it.
func (l *List) younger(leaf *x509.Certificate) bool {
	return !l.source.IssuedAt.IsZero() && leaf.NotBefore.Add(Backdate).After(l.source.IssuedAt)
}

// The cache has room for a few times the 10,000 senders that an operator is made
// for. A verdict stands in one of a few slots that its leaf's hash names; when all
// are taken it displaces another.
const (
	cacheSlots = 1 << 15
	cacheWays  = 16
)

// verdictCache keeps the verdict of each leaf that is in use. The key is the
// parsed certificate, which a connection keeps for all its requests; the verdict
// keeps it alive, so no other certificate can come to stand at its address.
type verdictCache struct {
	seed  maphash.Seed
	slots [cacheSlots]atomic.Pointer[verdict]
}

func (c *verdictCache) load(leaf *x509.Certificate) *verdict {
	first := maphash.Comparable(c.seed, leaf)
	for way := range uint64(cacheWays) {
		if v := c.slots[(first+way)%cacheSlots].Load(); v != nil && v.leaf == leaf {
			return v
		}
	}
	return nil
}

func (c *verdictCache) store(v *verdict) {
	first := maphash.Comparable(c.seed, v.leaf)
	for way := range uint64(cacheWays) {
		if c.slots[(first+way)%cacheSlots].CompareAndSwap(nil, v) {
			return
		}
	}
	c.slots[first%cacheSlots].Store(v)
}
