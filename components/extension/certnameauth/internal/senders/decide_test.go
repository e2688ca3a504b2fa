// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package senders

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/identity"
)

var (
	now = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	san = Match{DNS: true, URI: true}
)

// leafOf makes a leaf as a handshake would show it.
func leafOf(serial int64, edits ...func(*x509.Certificate)) *x509.Certificate {
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		NotBefore:    now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{"op-abc-export-c1"},
		URIs:        []*url.URL{parse("spiffe://op-abc.ikhnos/cluster/c1")},
	}
	commonName("op-abc-export-c1")(leaf)
	for _, edit := range edits {
		edit(leaf)
	}
	return leaf
}

func parse(text string) *url.URL {
	u, err := url.Parse(text)
	if err != nil {
		panic(err)
	}
	return u
}

func commonName(names ...string) func(*x509.Certificate) {
	return func(c *x509.Certificate) {
		c.Subject = pkix.Name{}
		for _, name := range names {
			c.Subject.CommonName = name
			c.Subject.Names = append(c.Subject.Names, pkix.AttributeTypeAndValue{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: name})
		}
	}
}

func dns(names ...string) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.DNSNames = names }
}

func uris(texts ...string) func(*x509.Certificate) {
	return func(c *x509.Certificate) {
		c.URIs = nil
		for _, text := range texts {
			c.URIs = append(c.URIs, parse(text))
		}
	}
}

func usage(usages ...x509.ExtKeyUsage) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.ExtKeyUsage = usages }
}

func cluster(holder string, edits ...func(*controlapi.PolicySender)) controlapi.PolicySender {
	s := controlapi.PolicySender{
		Name: identity.SenderName("op-abc", holder), URI: identity.SenderURI("op-abc", controlapi.KindCluster, holder),
		Kind: controlapi.KindCluster, OrgID: "default", ClusterID: holder, State: controlapi.SenderAllowed,
	}
	for _, edit := range edits {
		edit(&s)
	}
	return s
}

func state(s controlapi.SenderState) func(*controlapi.PolicySender) {
	return func(p *controlapi.PolicySender) { p.State = s }
}

func compile(src Source) *List {
	if src.StatsOf == nil {
		src.StatsOf = new(Registry).Of
	}
	if src.Match == (Match{}) {
		src.Match = san
	}
	return Compile(src)
}

func loaded(list ...controlapi.PolicySender) Source { return Source{Loaded: true, Senders: list} }

// case-23, case-25, PK-17: the table of names.
func TestNames(t *testing.T) {
	only := func(m Match) func(*Source) { return func(s *Source) { s.Match = m } }
	for _, tt := range []struct {
		name string
		leaf *x509.Certificate
		src  func(*Source)
		want Reason
	}{
		{"as issued", leafOf(1), nil, Accepted},
		{"DNS name in upper case", leafOf(1, dns("OP-ABC-EXPORT-C1")), nil, Accepted},
		{"DNS name with a dot at the end", leafOf(1, dns("op-abc-export-c1.")), nil, Accepted},
		{"DNS name with two dots at the end", leafOf(1, dns("op-abc-export-c1.."), uris()), nil, Unknown},
		{"DNS name with spaces around", leafOf(1, dns(" op-abc-export-c1 ")), nil, Accepted},
		{"letters that fold to ASCII in Unicode", leafOf(1, dns("op-abc-eXport-\u212a1"), uris(), commonName()), nil, Unknown},
		{"no common name", leafOf(1, commonName()), nil, Accepted},
		{"URI alone", leafOf(1, dns(), commonName()), nil, Accepted},
		{"URI with scheme and host in upper case", leafOf(1, dns(), uris("SPIFFE://OP-ABC.IKHNOS/cluster/c1")), nil, Accepted},
		{"URI with a dot after the host", leafOf(1, dns(), uris("spiffe://op-abc.ikhnos./cluster/c1")), nil, Accepted},
		{"URI path in upper case", leafOf(1, dns(), uris("spiffe://op-abc.ikhnos/cluster/C1")), nil, Unknown},
		{"common name alone", leafOf(1, dns(), uris()), nil, Unknown},
		{"common name alone, matched", leafOf(1, dns(), uris()), only(Match{CommonName: true}), Accepted},
		{"common name of a stranger is not looked at", leafOf(1, commonName("someone")), nil, Accepted},
		{"common name of another sender", leafOf(1, commonName("op-abc-export-c2")), only(Match{DNS: true, CommonName: true}), Ambiguous},
		{"two common names", leafOf(1, commonName("op-abc-export-c1", "someone")), nil, Ambiguous},
		{"the same common name twice", leafOf(1, commonName("op-abc-export-c1", "op-abc-export-c1")), nil, Ambiguous},
		{"wildcard", leafOf(1, dns("*.op-abc", "*", "op-abc-export-*"), uris()), nil, Unknown},
		{"names without a sender beside", leafOf(1, dns("x", "op-abc-export-c1", "*.y")), nil, Accepted},
		{"the same name twice", leafOf(1, dns("op-abc-export-c1", "OP-abc-export-c1.")), nil, Accepted},
		{"names of two senders", leafOf(1, dns("op-abc-export-c1", "op-abc-export-c2")), nil, Ambiguous},
		{"DNS of one, URI of another", leafOf(1, dns("op-abc-export-c2")), nil, Ambiguous},
		{"DNS matched alone, URI of another", leafOf(1, dns("op-abc-export-c2")), only(Match{DNS: true}), Mismatch},
		{"URI matched alone, DNS of another", leafOf(1, dns("op-abc-export-c2")), only(Match{URI: true}), Accepted},
		{"URI of a stranger's cluster", leafOf(1, uris("spiffe://op-abc.ikhnos/cluster/c9")), nil, Mismatch},
		{"URI of another kind", leafOf(1, uris("spiffe://op-abc.ikhnos/operator/c1")), nil, Mismatch},
		{"URI of another operator", leafOf(1, uris("spiffe://op-x.ikhnos/cluster/c1")), nil, Mismatch},
		{"one URI that agrees and one that does not", leafOf(1, uris("spiffe://op-abc.ikhnos/cluster/c1", "spiffe://op-x.ikhnos/cluster/c1")), nil, Mismatch},
		{"URI of another form", leafOf(1, uris("spiffe://example.com/ns/a", "https://example.com")), nil, Accepted},
		{"a part of the name", leafOf(1, dns("export-c1", "op-abc-export-c", "op-abc-export-c11"), uris()), nil, Unknown},
		{"no name at all", leafOf(1, dns(), uris(), commonName()), nil, Unknown},
		{"server's usage too", leafOf(1, usage(x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth)), nil, Usage},
		{"server's usage alone", leafOf(1, usage(x509.ExtKeyUsageServerAuth)), nil, Usage},
		{"any usage", leafOf(1, usage(x509.ExtKeyUsageAny, x509.ExtKeyUsageClientAuth)), nil, Usage},
		{"no usage", leafOf(1, usage()), nil, Usage},
		{"a CA", leafOf(1, func(c *x509.Certificate) { c.IsCA = true }), nil, Usage},
	} {
		t.Run(tt.name, func(t *testing.T) {
			src := loaded(cluster("c1"), cluster("c2"))
			if tt.src != nil {
				tt.src(&src)
			}
			d := compile(src).Decide(tt.leaf, now, false)
			assert.Equal(t, tt.want.String(), d.Reason.String())
			require.Equal(t, d.Reason == Accepted, d.Auth != nil)
			if d.Auth != nil {
				assert.Equal(t, "op-abc-export-c1", d.Auth.Sender.Name)
				assert.Equal(t, "01", d.Auth.Serial)
			}
		})
	}
}

// The list is brought into the same form as the certificate.
func TestListIsCanonical(t *testing.T) {
	odd := cluster("c1", func(p *controlapi.PolicySender) {
		p.Name, p.URI = " OP-ABC-Export-C1. ", "SPIFFE://OP-ABC.ikhnos/cluster/c1"
	})
	l := compile(loaded(odd))
	assert.Equal(t, Accepted, l.Decide(leafOf(1), now, false).Reason)
	assert.Equal(t, "op-abc-export-c1", l.Senders()[0].Name)

	l = compile(loaded(cluster("c1", func(p *controlapi.PolicySender) { p.Name = "*" }), cluster("c2", func(p *controlapi.PolicySender) { p.Name = "" })))
	assert.Empty(t, l.Senders(), "no certificate can match them")
	assert.Equal(t, Unknown, l.Decide(leafOf(1, dns("*", "")), now, false).Reason)

	l = compile(loaded(cluster("c1", state(controlapi.SenderRevoked)), cluster("c1")))
	assert.Equal(t, SenderRevoked, l.Decide(leafOf(1), now, false).Reason, "a name has one owner: the first")

	same := cluster("c2", func(p *controlapi.PolicySender) { p.URI = cluster("c1").URI })
	l = compile(loaded(cluster("c1"), same))
	assert.Equal(t, Ambiguous, l.Decide(leafOf(1, dns()), now, false).Reason, "a URI that two senders claim")
}

// Contract, section 11: the order of reasons. Every case adds a fault that comes
// earlier to those before it.
func TestOrderOfReasons(t *testing.T) {
	src := loaded(cluster("c1", state(controlapi.SenderHeld)), cluster("c2"))
	leaf := func(edits ...func(*x509.Certificate)) *x509.Certificate { return leafOf(7, edits...) }
	check := func(want Reason, leaf *x509.Certificate, stale bool) {
		t.Helper()
		assert.Equal(t, want.String(), compile(src).Decide(leaf, now, stale).Reason.String())
	}
	check(SenderHeld, leaf(), false)
	src.Senders[0].State = controlapi.SenderRevoked
	check(SenderRevoked, leaf(), false)
	src.Revoked = []string{"07"}
	check(CertificateRevoked, leaf(), false)
	mismatch := uris("spiffe://op-abc.ikhnos/operator/c1")
	check(Mismatch, leaf(mismatch), false)
	unknown := dns("op-abc-export-c9")
	check(Unknown, leaf(mismatch, unknown), false)
	src.IssuedAt = now.Add(-2 * time.Hour)
	check(NotYetKnown, leaf(mismatch, unknown), false)
	check(Usage, leaf(mismatch, unknown, usage()), false)
	check(Ambiguous, leaf(mismatch, unknown, usage(), commonName("a", "b")), false)
	src.DenyAll = true
	check(OperatorRevoked, leaf(mismatch, unknown, usage(), commonName("a", "b")), false)
	check(Stale, leaf(usage()), true)
	src.Loaded = false
	check(NotLoaded, leaf(usage()), true)
	ended := func(c *x509.Certificate) { c.NotAfter = now.Add(-time.Second) }
	check(Ended, leaf(usage(), ended), true)
	check(NotVerified, nil, true)
}

// A leaf is younger than the policy when not-before plus ten minutes is later
// than the policy's time.
func TestYoungerThanThePolicy(t *testing.T) {
	src := loaded(cluster("c1"))
	src.IssuedAt = now
	l := compile(src)
	at := func(issued time.Time) *x509.Certificate {
		return leafOf(1, dns("op-abc-export-c9"), uris(), func(c *x509.Certificate) { c.NotBefore = issued.Add(-Backdate) })
	}
	assert.Equal(t, Unknown, l.Decide(at(now.Add(-time.Second)), now, false).Reason)
	assert.Equal(t, Unknown, l.Decide(at(now), now, false).Reason)
	assert.Equal(t, NotYetKnown, l.Decide(at(now.Add(time.Second)), now, false).Reason)
	assert.Equal(t, Unknown, compile(loaded(cluster("c1"))).Decide(at(now.Add(time.Hour)), now, false).Reason, "a static list knows all it ever will")
}

func TestLeafEndsWithItsLastInstant(t *testing.T) {
	l, leaf := compile(loaded(cluster("c1"))), leafOf(1)
	assert.Equal(t, Accepted, l.Decide(leaf, leaf.NotAfter, false).Reason)
	assert.Equal(t, Ended, l.Decide(leaf, leaf.NotAfter.Add(1), false).Reason)
	assert.Equal(t, Accepted, l.Decide(leaf, now, false).Reason)
}

// A rekeyed sender: the old leaf is good until the first request with another,
// and at most until its time.
func TestReplacedLeaves(t *testing.T) {
	until := now.Add(time.Hour)
	src := loaded(cluster("c1", func(p *controlapi.PolicySender) {
		p.Replaced = &controlapi.Replaced{Serials: []string{"0a"}, Until: until}
	}))
	old, renewed := leafOf(10), leafOf(11)
	later := func(c *x509.Certificate) { c.NotAfter = now.Add(48 * time.Hour) }
	l := compile(src)
	enter := func(leaf *x509.Certificate) bool {
		d := l.Decide(leaf, now, false)
		require.Equal(t, Accepted, d.Reason)
		return d.Enter(leaf, now)
	}
	assert.False(t, enter(old), "the old leaf replaces nothing")
	assert.Equal(t, Accepted, l.Decide(renewed, now, false).Reason, "looking is not entering")
	assert.Equal(t, Accepted, l.Decide(old, now, false).Reason)
	assert.Empty(t, l.Cut())
	assert.True(t, enter(renewed))
	assert.False(t, enter(renewed), "once")
	assert.Equal(t, CertificateRevoked, l.Decide(old, now, false).Reason)
	assert.Equal(t, Accepted, l.Decide(renewed, now, false).Reason)
	assert.Equal(t, []string{"0a"}, l.Cut())

	l = compile(src)
	assert.Equal(t, Accepted, l.Decide(leafOf(10, later), until, false).Reason)
	assert.Equal(t, CertificateRevoked, l.Decide(leafOf(10, later), until.Add(time.Second), false).Reason)
}

func TestSerials(t *testing.T) {
	for _, text := range []string{"00ff", "ff", "FF", " ff\n"} {
		got, err := ParseSerial(text)
		require.NoError(t, err)
		assert.Equal(t, SerialOf(big.NewInt(255)), got)
	}
	for _, text := range []string{"", "f", "0x0f", "zz"} {
		_, err := ParseSerial(text)
		require.Error(t, err, text)
	}
	long := new(big.Int).Lsh(big.NewInt(3), 180)
	got, err := ParseSerial(SerialText(long))
	require.NoError(t, err)
	assert.Equal(t, SerialOf(long), got)
	assert.Equal(t, "00ff", SerialText(big.NewInt(255))[:0]+"00"+SerialText(big.NewInt(255)))
	assert.Equal(t, "0102", SerialText(big.NewInt(258)))
	assert.Empty(t, SerialText(nil))
}

// The cache stays bounded, and its verdicts are right when many share it.
func TestCacheIsBoundedAndShared(t *testing.T) {
	l := compile(loaded(cluster("c1"), cluster("c2", state(controlapi.SenderRevoked))))
	first := leafOf(1)
	for range cacheSlots + cacheSlots/4 {
		leaf := *first // another connection with the same certificate
		if d := l.Decide(&leaf, now, false); d.Reason != Accepted {
			t.Fatal(d.Reason)
		}
	}
	good, bad := leafOf(1), leafOf(2, dns("op-abc-export-c2"), uris())
	var wrong atomic.Int64
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 2000 {
				leaf := *first
				if l.Decide(good, now, false).Reason != Accepted || l.Decide(bad, now, false).Reason != SenderRevoked || l.Decide(&leaf, now, false).Reason != Accepted {
					wrong.Add(1)
				}
			}
		})
	}
	group.Wait()
	assert.Zero(t, wrong.Load())
}

func TestStats(t *testing.T) {
	r := new(Registry)
	s := r.Of("a")
	assert.Same(t, s, r.Of("a"))
	_, ok := s.Report()
	assert.False(t, ok, "nothing to tell")
	assert.False(t, s.CountRefused(Ended, 5), "a leaf that ended is no cut-off")
	assert.True(t, s.CountRefused(SenderRevoked, 1500))
	assert.False(t, s.CountRefused(SenderRevoked, 2500))
	serial := "0a"
	s.enter(&serial, 77, 3500)
	s.CountAccepted(Logs)
	line, ok := s.Report()
	require.True(t, ok)
	at := time.Unix(3, 0).UTC()
	assert.Equal(t, controlapi.ReportSender{
		Name: "a", Serial: "0a", LastAcceptedAt: &at, LastAcceptedAtMs: 3500, FirstRefusedAtMs: 1500,
		Accepted: controlapi.SignalCounts{Logs: 1}, Refused: map[string]int64{"certificate_ended": 1, "sender_revoked": 2},
	}, line)
	assert.Equal(t, int64(77), s.LeafExpiry())
	r.NewNumber()
	assert.True(t, s.CountRefused(SenderRevoked, 9))
}

// FuzzCanonical: the form is stable, and never takes two unlike names for one.
func FuzzCanonical(f *testing.F) {
	f.Add("OP-abc-Export-C1.")
	f.Add("\u212a")
	f.Fuzz(func(t *testing.T, name string) {
		once := Canonical(name)
		if len(once) > 0 && once[len(once)-1] != '.' && once == Canonical(" "+once) {
			require.Equal(t, once, Canonical(once))
		}
		if uri, ok := CanonicalURI(name); ok {
			again, ok := CanonicalURI(uri)
			if ok {
				require.Equal(t, uri, again)
			}
		}
	})
}
