// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ikhnos/continuum/internal/controlapi"
)

// statusAnswers is a server with a day like any other, or a bad one.
func statusAnswers(summary map[string]any) map[string]any {
	summary["at"] = "2026-11-30T12:00:00Z"
	return map[string]any{"GET /api/v1/orgs/default/summary": summary}
}

func badDay() map[string]any {
	row := func(kind, object, since, why, command string) any {
		return map[string]any{"kind": kind, "object": object, "since": since, "why": why, "command": command}
	}
	return map[string]any{
		"operators": map[string]any{"online": 11, "offline": 1}, "clusters": map[string]any{"approved": 204, "pending": 1},
		"senders": map[string]any{"active": 195, "not_measured": 7, "silent": 1, "waiting": 1}, "endingSoon": 3,
		"nextRenewal": map[string]any{"operatorId": "op-eu", "holder": "op-eu-export-c22", "renewAfter": "2026-11-30T16:10:00Z"},
		"nextCaEnd":   "2031-01-05T12:00:00Z",
		"server":      map[string]any{"version": "0.3.0", "keysSealed": true, "certificateEnds": "2027-02-26T12:00:00Z", "lastBackupAt": "2026-11-30T07:00:00Z", "policyConfirmed": 11, "policyOperators": 12},
		"attention": []any{
			row("unconfirmed", "rcp-40", "2026-11-30T11:58:00Z", "the revocation of c7 is not confirmed by 1 instance", "ikhnos receipt get rcp-40"),
			row("operator_offline", "op-eu", "2026-11-30T11:58:00Z", "its 7 senders are not measured", "ikhnos operator get op-eu"),
			map[string]any{"kind": "sender_silent", "object": "op-west-export-c12", "operatorId": "op-west", "holderId": "c12", "since": "2026-11-28T09:40:00Z",
				"why": "the 13 others behind op-west send", "command": "ikhnos sender get c12 --operator op-west"},
			map[string]any{"kind": "something_new", "object": "x", "why": "told by a newer server", "command": "ikhnos x"},
		},
	}
}

func TestStatus(t *testing.T) {
	quiet := map[string]any{"operators": map[string]any{"online": 12}, "clusters": map[string]any{}, "senders": map[string]any{"active": 196}, "attention": []any{}, "server": map[string]any{"version": "0.3.0"}}
	tests := map[string]struct {
		answers map[string]any
		code    int
	}{
		"quiet": {statusAnswers(quiet), exitDone},
		"bad":   {statusAnswers(badDay()), exitFound},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, newFakeServer(t, test.answers))
			got := m.run("status")
			assert.Equal(t, test.code, got.code, got.stderr)
			golden(t, "status-"+name+".golden.txt", got.stdout)
			got = m.run("status", "-o", "json")
			assert.Equal(t, test.code, got.code)
			assert.Contains(t, got.stdout, `"attention"`)
		})
	}
}

func TestStatusWatchLooksAgain(t *testing.T) {
	answers := statusAnswers(badDay())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var looks atomic.Int32
	answers["GET /api/v1/orgs/default/summary"] = func(w http.ResponseWriter) {
		if looks.Add(1) == 1 { // a server that is away for a moment is tried again
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		cancel()
	}
	m := newMachine(t, newFakeServer(t, answers))
	m.env.poll = time.Millisecond
	var out, errs bytes.Buffer
	assert.Equal(t, exitDone, run(withEnvironment(ctx, m.env), []string{"status", "--watch"}, strings.NewReader(""), &out, &errs))
	assert.EqualValues(t, 2, looks.Load())
	assert.Contains(t, errs.String(), "the control server did not answer")
}

func TestSenderWaitGivesUp(t *testing.T) {
	sender := map[string]any{"name": "op-eu-export-c9", "holderId": "c9", "operatorId": "op-eu", "status": "waiting", "notAfter": "2026-12-30T12:00:00Z"}
	f := newFakeServer(t, map[string]any{"GET /api/v1/orgs/default/operators/op-eu/senders/c9": sender})
	got := newMachine(t, f).run("sender", "wait", "c9", "--operator", "op-eu", "--timeout", "50ms")
	assert.Equal(t, exitNotConfirmed, got.code)
	assert.Equal(t, "c9 may send to op-eu\nit has a certificate, which ends 2026-12-30T12:00:00Z\n", got.stdout, "one line a step")
	assert.Contains(t, got.stderr, "error: no data of c9 was accepted yet\n")

	got = newMachine(t, f).run("sender", "wait", "c8", "--operator", "op-eu")
	assert.Equal(t, exitRefused, got.code)
}

// Data of before a cut-off is no sign that a sender gets through.
func TestSenderWaitOfOneThatMayNotSend(t *testing.T) {
	for state, what := range map[controlapi.SenderState]string{
		controlapi.SenderRevoked: "c9 is cut off from op-eu (reason: sender_revoked)",
		controlapi.SenderHeld:    "c9 is held at op-eu (reason: sender_held)",
	} {
		sender := map[string]any{"holderId": "c9", "operatorId": "op-eu", "state": state, "status": "revoked", "lastAcceptedAt": "2026-11-30T12:00:00Z"}
		f := newFakeServer(t, map[string]any{"GET /api/v1/orgs/default/operators/op-eu/senders/c9": sender})
		got := newMachine(t, f).run("sender", "wait", "c9", "--operator", "op-eu")
		assert.Equal(t, exitRefused, got.code)
		assert.Empty(t, got.stdout)
		assert.Equal(t, "error: "+what+"\n  why   nothing that it sends is accepted until it is let in again\n"+
			"  do    ikhnos sender restore c9 --operator op-eu\n", got.stderr)
	}
}

// HS-9: operators are told by one word everywhere, and a report is a sign of life as
// much as a heartbeat.
func TestOperatorsThatAreHeard(t *testing.T) {
	seen := func(at string) map[string]any { return map[string]any{"state": "online", "lastSeenAt": at} }
	reported := map[string]any{"id": "op-eu", "name": "EU", "role": "regional", "state": "active", "status": "online", "health": map[string]any{"state": "unknown"}}
	all := page(reported,
		map[string]any{"id": "op-us", "name": "US", "role": "regional", "state": "active", "status": "renewal_failing", "health": seen("2026-11-30T12:03:00Z")},
		map[string]any{"id": "op-new", "name": "New", "role": "regional", "state": "active", "status": "not_enrolled", "health": map[string]any{"state": "unknown"}},
		map[string]any{"id": "op-old", "name": "Old", "role": "regional", "state": "active", "status": "offline", "health": seen("2026-11-30T11:03:10Z")})
	none := map[string]any{"items": []any{}}
	f := newFakeServer(t, map[string]any{
		"GET /api/v1/orgs/default/operators": all, "GET /api/v1/orgs/default/operators/op-eu": reported,
		"GET /api/v1/orgs/default/operators/op-eu/instances": map[string]any{"items": []any{
			map[string]any{"instance": "a", "reportedAt": "2026-11-30T12:02:40Z"}, map[string]any{"instance": "b", "reportedAt": "2026-11-30T12:02:00Z"}}},
		"GET /api/v1/orgs/default/operators/op-new/instances": none, "GET /api/v1/orgs/default/operators/op-old/instances": none,
	})
	m := newMachine(t, f)
	listed := m.ok("operator", "list")
	for _, want := range []string{
		`op-eu +EU +regional +● online +30 s ago `, `op-us +US +regional +◷ renewal failing +10 s ago `,
		`op-new +New +regional +○ not enrolled +- `, `op-old +Old +regional +▲ offline +1 h ago `,
	} {
		assert.Regexp(t, want, listed)
	}
	assert.Regexp(t, `(?m)^state +● online\nlast heard +2026-11-30T12:02:40Z$`, m.ok("operator", "get", "op-eu"))
}

func TestCertificatesThatAreLate(t *testing.T) {
	entry := func(serial, state, renewBy string) any {
		return map[string]any{"operatorId": "op-eu", "holder": "op-eu-export-c1", "role": "sender", "state": state, "serial": serial,
			"notAfter": "2026-12-16T12:00:00Z", "renewBy": renewBy, "renewAfter": "2026-11-20T12:00:00Z"}
	}
	f := newFakeServer(t, map[string]any{"GET /api/v1/orgs/default/certificates": page(
		entry("aa01", "valid", "2026-11-29T12:00:00Z"), entry("aa02", "valid", "2026-12-01T12:00:00Z"),
		entry("aa03", "revoked", "2026-11-29T12:00:00Z"), entry("bb04", "ended", "2026-11-29T12:00:00Z")),
		"GET /api/v1/orgs/default/senders": page(), "GET /api/v1/orgs/default/operators": page()})
	m := newMachine(t, f)
	golden(t, "cert-failing.golden.txt", m.ok("cert", "list", "--failing"))
	m.ok("cert", "list", "--ends-before", "7d", "--holder", "op-eu-export-c1", "--state", "valid")
	assert.Equal(t, []string{
		"GET /api/v1/orgs/default/certificates?limit=500&newest=true",
		"GET /api/v1/orgs/default/senders?limit=500&state=renewal_failing",
		"GET /api/v1/orgs/default/operators?limit=500",
		"GET /api/v1/orgs/default/certificates?endsBefore=2026-12-07T12%3A03%3A10Z&holder=op-eu-export-c1&limit=500&state=valid",
	}, f.requests)

	f.answers["GET /api/v1/orgs/default/senders"] = page(map[string]any{"name": "op-eu-export-c1", "status": "renewal_failing"})
	assert.Contains(t, m.ok("cert", "list", "--failing"), "aa02", "its last renewal was refused (ST-1)")
	assert.Contains(t, m.ok("cert", "get", "BB:04"), "bb04")
	got := m.run("cert", "get", "aa")
	assert.Equal(t, exitUsage, got.code)
	assert.Contains(t, got.stderr, "3 certificates begin with this serial")
	assert.Equal(t, exitRefused, m.run("cert", "get", "cc").code)
}

// A list without a row is one sentence beside standard output.
func TestEmptyList(t *testing.T) {
	m := newMachine(t, newFakeServer(t, map[string]any{"GET /api/v1/orgs/default/certificates": page()}))
	assert.Equal(t, result{exitDone, "", "No certificate.\n"}, m.run("cert", "list"))
	assert.Equal(t, result{exitDone, "", ""}, m.run("cert", "list", "--quiet"))
	assert.Equal(t, result{exitDone, "{\n  \"items\": []\n}\n", ""}, m.run("cert", "list", "-o", "json"))
}

func TestAuditSince(t *testing.T) {
	f := newFakeServer(t, map[string]any{"GET /api/v1/orgs/default/audit": page()})
	m := newMachine(t, f)
	m.ok("audit", "list", "--since", "2d", "--actor", "alice")
	m.ok("audit", "list", "--since", "2026-11-01T00:00:00Z")
	assert.Equal(t, []string{
		"GET /api/v1/orgs/default/audit?actor=alice&limit=500&since=2026-11-28T12%3A03%3A10Z",
		"GET /api/v1/orgs/default/audit?limit=500&since=2026-11-01T00%3A00%3A00Z",
	}, f.requests)
}

func TestExplain(t *testing.T) {
	m := newMachine(t, nil)
	for _, reason := range []string{"clock_skew", "sender_revoked", "ca_changed"} {
		golden(t, "explain-"+reason+".golden.txt", m.ok("explain", reason))
	}
	got := m.run("explain", "blah")
	assert.Equal(t, exitUsage, got.code)
	assert.Contains(t, got.stderr, "\n  do    ikhnos explain\n")
	listed := m.ok("explain")
	for _, e := range controlapi.Explanations() {
		assert.Contains(t, listed, "\n"+e.Reason+" ")
	}
}

func TestSpans(t *testing.T) {
	day := 24 * time.Hour
	for d, want := range map[time.Duration]string{
		0: "0 s", 59 * time.Second: "59 s", 90 * time.Second: "1 min", 47 * time.Hour: "47 h", 16 * day: "16 d", 1497 * day: "4.1 years",
	} {
		assert.Equal(t, want, span(d))
		assert.Equal(t, want, span(-d))
	}
	for n, want := range map[int]string{0: "0 clusters", 1: "1 cluster", 2: "2 clusters"} {
		assert.Equal(t, want, count(n, "cluster"))
	}
	assert.Equal(t, "2 leaves", count(2, "leaf"))
}

func TestTablesAlignByCharacters(t *testing.T) {
	var out bytes.Buffer
	writeTable(&out, [][]string{{"A", "B"}, {"é\x1b[31m", ""}, {"xyz", "w"}})
	assert.Equal(t, "A      B\né[31m  -\nxyz    w\n", out.String())
}
