// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package continuumidentity

import (
	"math/rand/v2"
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/xpdata"
)

// generator makes requests with reserved keys planted everywhere.
type generator struct {
	*rand.Rand
	extra []string // further keys to plant, of a fuzzer
	b     []byte
}

var (
	reservedWords = []string{
		"continuum", "continuum.org.id", "continuum.cluster.id", "continuum.intent.id", "continuum.operator.id",
		"continuum.operator.name", "continuum.x", "vm_account_id", "vm_project_id",
	}
	harmlessWords = []string{"container.id", "continuums", "xcontinuum", "contin.uum", "http.route", "version", "a", "region", "env", "k8s.pod.name", "vm_account"}
	separators    = []string{".", "_", "-", "__", "..", " ", "/", ":", "\t", "\x00", "\u200b", "é", "\xff", "._-"}
)

func pick[T any](g *generator, from []T) T { return from[g.IntN(len(from))] }

// key is a random spelling of a reserved key, or one that only looks like it.
func (g *generator) key() string {
	switch {
	case len(g.extra) > 0 && g.IntN(4) == 0:
		return pick(g, g.extra)
	case g.IntN(3) == 0:
		return pick(g, harmlessWords)
	}
	word := pick(g, reservedWords)
	if g.IntN(3) == 0 {
		return word // exactly
	}
	g.b = g.b[:0]
	if g.IntN(3) == 0 {
		g.b = append(g.b, pick(g, separators)...)
	}
	upper := g.Uint64()
	for i := range len(word) {
		switch c := word[i]; {
		case c == '.' || c == '_':
			g.b = append(g.b, pick(g, separators)...)
		case upper>>i&3 == 0 && 'a' <= c && c <= 'z':
			g.b = append(g.b, c-'a'+'A')
		default:
			g.b = append(g.b, c)
		}
	}
	if g.IntN(3) == 0 {
		g.b = append(g.b, pick(g, separators)...)
	}
	return string(g.b)
}

// value is mostly a string that somebody owns, sometimes of another type.
func (g *generator) value(v pcommon.Value) {
	switch g.IntN(12) {
	case 0:
		v.SetInt(7)
	case 1:
		v.SetEmptyMap().PutStr("continuum.inside", "data")
	case 2:
		v.SetEmptySlice().AppendEmpty().SetStr("c1")
	case 3: // no value at all
	case 4:
		v.SetStr("")
	default:
		v.SetStr(pick(g, []string{"org1", "org2", "c1", "c2", "op-abc", "op-xyz", "forged"}))
	}
}

// plant fills a map with up to six attributes, duplicates among them.
func (g *generator) plant(_ level, m pcommon.Map) {
	var b xpdata.MapBuilder
	last := ""
	for range g.IntN(7) {
		if last == "" || g.IntN(5) > 0 {
			last = g.key()
		}
		g.value(b.AppendEmpty(last))
	}
	b.UnsafeIntoMap(m)
}

func (g *generator) traces() ptrace.Traces {
	td := fullTraces()
	visitTraces(td, g.plant)
	return td
}

func (g *generator) logs() plog.Logs {
	ld := fullLogs()
	visitLogs(ld, g.plant)
	return ld
}

func (g *generator) metrics() pmetric.Metrics {
	md := fullMetrics()
	visitMetrics(md, g.plant)
	return md
}

func (g *generator) profiles(t testing.TB) pprofile.Profiles {
	var rows []kv
	for range 1 + g.IntN(6) {
		rows = append(rows, kv{g.key(), "v"})
	}
	pd := fullProfiles(t, rows)
	rp := pd.ResourceProfiles().At(0)
	g.plant(levelResource, rp.Resource().Attributes())
	g.plant(levelScope, rp.ScopeProfiles().At(0).Scope().Attributes())
	return pd
}
