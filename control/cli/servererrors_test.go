// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// An id that is not there is named, with the command that lists those that are.
func TestWhatIsNotThere(t *testing.T) {
	s := newRealServer(t)
	s.exec(exitDone, "operator", "create", "EU", "--id", "op-eu", "--role", "central")
	for _, test := range []struct {
		args     []string
		what, do string
	}{
		{[]string{"cluster", "get", "c9"}, "cluster c9", "ikhnos cluster list"},
		{[]string{"cluster", "approve", "c9"}, "cluster c9", "ikhnos cluster list"},
		{[]string{"operator", "get", "op-x"}, "operator op-x", "ikhnos operator list"},
		{[]string{"operator", "retire", "op-x"}, "operator op-x", "ikhnos operator list"},
		{[]string{"operator", "delete", "op-x", "--yes"}, "operator op-x", "ikhnos operator list"},
		{[]string{"sender", "connect", "c9", "--operator", "op-eu"}, "operator op-eu, or cluster c9", "ikhnos operator list; ikhnos cluster list"},
		{[]string{"sender", "revoke", "c9", "--operator", "op-eu"}, "operator op-eu, or sender c9", "ikhnos operator list; ikhnos sender list --operator op-eu"},
		{[]string{"token", "revoke", "tok-x", "--operator", "op-eu"}, "operator op-eu, or enrolment token tok-x", "ikhnos operator list; ikhnos token list --operator op-eu"},
		{[]string{"receipt", "get", "rcp-x"}, "receipt rcp-x", "ikhnos sender get shows the last one of a sender"},
		{[]string{"admin-token", "revoke", "adm/x"}, "admin token adm/x", "ikhnos admin-token list"},
		{[]string{"policy", "get", "op-x"}, "operator op-x", "ikhnos operator list"},
		{[]string{"ledger", "head", "op-x"}, "operator op-x", "ikhnos operator list"},
	} {
		r := s.run(test.args...)
		assert.Equal(t, exitRefused, r.code, test.args)
		assert.Regexp(t, `^error: not found in organisation default: `+test.what+` \(reason: not_found\)
  why   there is none of this id, or it was deleted \(request \w+\)
  do    `+test.do+"\n$", r.stderr)
	}
	r := s.run("--org", "acme", "cluster", "list")
	assert.Equal(t, exitRefused, r.code)
	assert.Contains(t, r.stderr, "error: not found: organisation acme (reason: not_found)\n  why   there is none of this id, or the admin token is not for it")
}

// A token that was ended is named by where it came from.
func TestATokenThatHasEnded(t *testing.T) {
	s := newRealServer(t)
	path := filepath.Join(t.TempDir(), "token")
	s.exec(exitDone, "admin-token", "create", "ci", "--role", "viewer", "--expires", "1h", "--out", path)
	s.exec(exitDone, "--token-file", path, "cluster", "list")
	s.exec(exitDone, "admin-token", "revoke", regexp.MustCompile(`(?m)^(\S+)\s+ci `).FindStringSubmatch(s.exec(exitDone, "admin-token", "list"))[1])
	r := s.run("--token-file", path, "cluster", "list")
	assert.Equal(t, exitRefused, r.code)
	assert.Regexp(t, `^error: the server does not know this admin token, or it has ended \(reason: admin_unauthenticated\)
  why   it came from --token-file \(request \w+\)
  do    ikhnos login, or --token-file with one that works; when every one is lost, on the server's machine: ikhnos admin-token reset
$`, r.stderr)
}

// A server that takes a connection and says nothing is told apart from none.
func TestAServerThatSaysNothing(t *testing.T) {
	w := newOnTheWay(t)
	goOn := make(chan struct{})
	w.at(false, []string{"GET", "/clusters"}, func() { <-goOn })
	r := w.run("cluster", "list", "--timeout", (50 * time.Millisecond).String())
	close(goOn)
	assert.Equal(t, exitUnreachable, r.code)
	assert.Contains(t, r.stderr, "error: the control server did not answer\n  why   "+w.env.vars["IKHNOS_SERVER"]+": nothing came back within 50ms")
}

// Why a certificate is not trusted decides what to do about it.
func TestTrustAdvice(t *testing.T) {
	m := newMachine(t, newFakeServer(t, nil)) // its certificate is good for 127.0.0.1 and example.com
	pin := m.env.vars["IKHNOS_CA_PIN"]
	for name, test := range map[string]struct{ pin, server, do string }{
		"another pin": {"sha256:" + strings.Repeat("00", 32), "127.0.0.1", "compare the pin given here with the one that the server logged at its start; "},
		"no pin":      {"", "127.0.0.1", "ikhnos login, or --ca-pin with the pin that the server logged at its start\n"},
		"its name":    {pin, "localhost", "use an address that its certificate names, such as its --public-url\n"},
	} {
		t.Run(name, func(t *testing.T) {
			m.env.vars["IKHNOS_CA_PIN"] = test.pin
			r := m.run("org", "list", "--server", strings.Replace(m.env.vars["IKHNOS_SERVER"], "127.0.0.1", test.server, 1))
			assert.Equal(t, exitUnreachable, r.code)
			assert.Contains(t, r.stderr, "error: the control server's certificate is not trusted\n")
			assert.Contains(t, r.stderr, "  do    "+test.do)
		})
	}
}
