// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package senders

import (
	"crypto/x509"
	"fmt"
	"math/big"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/internal/controlapi"
)

// big list: 10,000 senders and so many revoked serials.
func bigList(revoked int) *List {
	src := Source{Loaded: true, Senders: make([]controlapi.PolicySender, 10_000), Revoked: make([]string, revoked)}
	for i := range src.Senders {
		src.Senders[i] = cluster("c" + strconv.Itoa(i))
	}
	for i := range src.Revoked {
		src.Revoked[i] = fmt.Sprintf("7f%038x", i)
	}
	return compile(src)
}

func leaves(n int) []*x509.Certificate {
	all := make([]*x509.Certificate, n)
	for i := range all {
		holder := "c" + strconv.Itoa(i)
		all[i] = leafOf(int64(i)+1, dns("op-abc-export-"+holder), uris("spiffe://op-abc.ikhnos/cluster/"+holder), commonName("op-abc-export-"+holder))
		all[i].SerialNumber = new(big.Int).Add(new(big.Int).Lsh(big.NewInt(0x6f), 144), big.NewInt(int64(i)))
	}
	return all
}

// BenchmarkDecide is the check of one request: 10,000 senders, each with its
// connection, in turn. Bar: 300 ns and no allocation at 100,000 revoked serials.
func BenchmarkDecide(b *testing.B) {
	for _, revoked := range []int{0, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("revoked=%d", revoked), func(b *testing.B) {
			l, certs := bigList(revoked), leaves(10_000)
			for _, leaf := range certs {
				l.Decide(leaf, now, false)
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if l.Decide(certs[i%len(certs)], now, false).Reason != Accepted {
					b.Fatal("refused")
				}
				i++
			}
		})
	}
}

// BenchmarkDecideFirst is the first request of a connection under a policy.
func BenchmarkDecideFirst(b *testing.B) {
	l, certs := bigList(100_000), leaves(10_000)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		l.judge(certs[i%len(certs)])
		i++
	}
}

// BenchmarkCompile is what a new policy costs.
func BenchmarkCompile(b *testing.B) {
	for b.Loop() {
		bigList(100_000)
	}
}

// Design 7: no allocation per request.
func TestDecideAllocatesNothing(t *testing.T) {
	l, leaf := bigList(1000), leaves(1)[0]
	l.Decide(leaf, now, false)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		if d := l.Decide(leaf, now, false); d.Reason == Accepted {
			d.Enter(leaf, now)
		}
	}))
}
