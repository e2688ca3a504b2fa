// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package senders

import (
	"crypto/x509"
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/identity"
)

// Match says which names of a certificate are compared with the list.
type Match struct{ DNS, URI, CommonName bool }

// Source is everything that one List is compiled from.
type Source struct {
	// Loaded is false while there is no policy; every request is then refused.
	Loaded bool
	// DenyAll is the policy of a revoked operator.
	DenyAll bool
	Version controlapi.Version
	// IssuedAt of the policy: an unknown name on a younger leaf is not yet known.
	// Zero for a static list, where unknown is unknown.
	IssuedAt time.Time
	Match    Match
	Senders  []controlapi.PolicySender
	// Revoked are serials of the policy, Denied those remembered from earlier.
	Revoked, Denied []string
	CRL             *CRL
	// StatsOf returns the counters of a sender, which outlive a List.
	StatsOf func(name string) *Stats
}

// Sender is one sender of a List.
type Sender struct {
	identity.Sender
	State controlapi.SenderState
	Stats *Stats

	uri           string
	replaced      map[Serial]struct{}
	replacedTexts []string
	replacedUntil time.Time
	cut           atomic.Bool // the replaced leaves are refused from now on
}

// List is one generation. Nothing in it changes once it is compiled but the
// bounded cache of verdicts and whether replaced leaves were cut off.
type List struct {
	source  Source
	names   map[string]*Sender
	uris    map[string]*Sender
	all     []*Sender
	revoked map[Serial]struct{}
	cache   verdictCache
}

// shared stands in the index for a URI that several senders claim: it matches
// more than one of them, so nobody.
var shared = &Sender{}

// Compile makes a List. Entries that no certificate can match, because they are
// empty or have a wildcard, are left out; of two with the same name the later is
// left out, since a name has one owner.
func Compile(src Source) *List {
	l := &List{
		source:  src,
		names:   make(map[string]*Sender, len(src.Senders)),
		uris:    make(map[string]*Sender, len(src.Senders)),
		all:     make([]*Sender, 0, len(src.Senders)),
		revoked: make(map[Serial]struct{}, len(src.Revoked)+len(src.Denied)),
		cache:   verdictCache{seed: maphash.MakeSeed()},
	}
	for i := range src.Senders {
		l.add(&src.Senders[i])
	}
	for _, texts := range [][]string{src.Revoked, src.Denied} {
		for _, text := range texts {
			if serial, err := ParseSerial(text); err == nil {
				l.revoked[serial] = struct{}{}
			}
		}
	}
	l.source.Senders, l.source.Revoked, l.source.Denied = nil, nil, nil
	return l
}

func (l *List) add(p *controlapi.PolicySender) {
	name := Canonical(p.Name)
	if name == "" || Wildcard(name) || l.names[name] != nil {
		return
	}
	s := &Sender{
		Sender: identity.Sender{
			Name: name, Kind: p.Kind, OrgID: p.OrgID, ClusterID: p.ClusterID,
			OperatorID: p.OperatorID, OperatorName: p.OperatorName, Labels: p.Labels, Vouches: p.Vouches,
		},
		State: p.State,
		Stats: l.source.StatsOf(name),
	}
	if p.Replaced != nil {
		s.setReplaced(p.Replaced)
	}
	l.names[name] = s
	l.all = append(l.all, s)
	if uri, ok := CanonicalURI(p.URI); ok {
		s.uri = uri
		if l.uris[uri] != nil {
			l.uris[uri] = shared
			return
		}
		l.uris[uri] = s
	}
}

func (s *Sender) setReplaced(r *controlapi.Replaced) {
	s.replaced = make(map[Serial]struct{}, len(r.Serials))
	s.replacedUntil = r.Until
	s.replacedTexts = r.Serials
	for _, text := range r.Serials {
		if serial, err := ParseSerial(text); err == nil {
			s.replaced[serial] = struct{}{}
		}
	}
}

// Senders are the senders of the list in its order. The caller changes nothing.
func (l *List) Senders() []*Sender { return l.all }

// Version is the policy's version; zero for a static list.
func (l *List) Version() controlapi.Version { return l.source.Version }

// DenyAll says that the operator was revoked.
func (l *List) DenyAll() bool { return l.source.DenyAll }

// Loaded says that there is a list at all.
func (l *List) Loaded() bool { return l.source.Loaded }

// RevokedSerials counts what the policy (with remembered denials) and the
// revocation list deny.
func (l *List) RevokedSerials() (policy, crl int) { return len(l.revoked), l.source.CRL.Len() }

// Cut returns the serials that were replaced and are refused because their
// sender was accepted with another leaf since this list was compiled.
func (l *List) Cut() []string {
	var serials []string
	for _, s := range l.all {
		if s.cut.Load() {
			serials = append(serials, s.replacedTexts...)
		}
	}
	return serials
}

// isRevoked looks at what is certain for the life of the list.
func (l *List) isRevoked(leaf *x509.Certificate) bool {
	serial := SerialOf(leaf.SerialNumber)
	if _, ok := l.revoked[serial]; ok {
		return true
	}
	return l.source.CRL.Revokes(leaf.RawIssuer, serial)
}
