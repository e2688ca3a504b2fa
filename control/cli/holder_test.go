// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/internal/certfile"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/testpki"
)

// holderMachine is a machine of a sender: it knows the server and has no admin
// token.
func holderMachine(t *testing.T, s *realServer) *machine {
	m := newMachine(t, nil)
	m.env.now = time.Now
	m.env.vars["IKHNOS_SERVER"], m.env.vars["IKHNOS_CA_PIN"] = s.env.vars["IKHNOS_SERVER"], s.env.vars["IKHNOS_CA_PIN"]
	return m
}

// connected makes a cluster that may send to an operator and returns its token.
func connected(s *realServer) string {
	s.exec(exitDone, "operator", "create", "EU", "--id", "op-eu", "--role", "central")
	s.exec(exitDone, "cluster", "add", "c1", "--approve")
	token := enrollmentToken.FindString(s.exec(exitDone, "sender", "connect", "c1", "--operator", "op-eu"))
	require.NotEmpty(s.t, token)
	return token
}

// RN-5, UX of section 11: a stock collector's machine, against the real server.
func TestEnrollAndRenewCommands(t *testing.T) {
	s := newRealServer(t)
	m := holderMachine(t, s)
	m.stdin = connected(s) + "\n"
	dir := filepath.Join(t.TempDir(), "with space", "export")

	require.Contains(t, m.ok("enroll", "--dir", dir, "--enrollment-token-file", "-"), "issued op-eu-export-c1: serial ")
	first, err := certfile.Load(dir)
	require.NoError(t, err)
	require.False(t, first.RenewAfter.IsZero())
	require.Empty(t, m.ok("enroll", "--dir", dir, "--enrollment-token-file", "-"), "over a good pair it does nothing")
	require.Empty(t, m.ok("renew", "--dir", dir), "before renewAfter the leaf is kept")
	kept, err := certfile.Load(dir)
	require.NoError(t, err)
	require.Equal(t, first, kept)

	require.Empty(t, m.ok("enroll", "--dir", dir, "--enrollment-token-file", "-", "--force"), "the pair came by this token")

	mark := filepath.Join(t.TempDir(), "reloaded")
	var got held
	require.NoError(t, json.Unmarshal([]byte(m.ok("renew", "--dir", dir, "--force", "-o", "json", "--exec-after", "touch '"+mark+"'")), &got))
	require.Equal(t, "op-eu-export-c1", got.Name)
	require.FileExists(t, mark)
	second, err := certfile.Load(dir)
	require.NoError(t, err)
	require.NotEqual(t, first.Certificate, second.Certificate)
	require.NotEqual(t, first.Key, second.Key)
	require.Equal(t, first.CA, second.CA)

	failed := m.run("renew", "--dir", dir, "--force", "--exec-after", "exit 3")
	require.Equal(t, exitFailed, failed.code)
	require.Contains(t, failed.stderr, "--exec-after")

	// Without a usable pair a spent token is refused; what was printed holds no secret.
	refused := m.run("enroll", "--dir", t.TempDir(), "--enrollment-token-file", "-")
	require.Equal(t, exitRefused, refused.code, refused.stderr)
	require.Contains(t, refused.stderr, "token_spent")
	require.NotContains(t, refused.stdout+refused.stderr, "iktok_")

	// Cut off: refused, and the pair on disk stays.
	s.run("sender", "revoke", "c1", "--operator", "op-eu", "--wait", "0s")
	refused = m.run("renew", "--dir", dir, "--force")
	require.Equal(t, exitRefused, refused.code, refused.stderr)
	require.Contains(t, refused.stderr, "reason: leaf_revoked")
}

// Contract, section 4: the printed commands of a rekey replace the good pair, and
// may be run twice.
func TestEnrollAfterRekey(t *testing.T) {
	s := newRealServer(t)
	m := holderMachine(t, s)
	m.stdin = connected(s)
	dir := t.TempDir()
	m.ok("enroll", "--dir", dir, "--enrollment-token-file", "-")
	first, err := certfile.Load(dir)
	require.NoError(t, err)

	printed := s.exec(exitDone, "sender", "rekey", "c1", "--operator", "op-eu")
	require.Contains(t, printed, "--enrollment-token-file - --force")
	m.stdin = enrollmentToken.FindString(printed)
	require.Empty(t, m.ok("enroll", "--dir", dir, "--enrollment-token-file", "-"), "over a good pair it does nothing")
	require.Contains(t, m.ok("enroll", "--dir", dir, "--enrollment-token-file", "-", "--force"), "issued op-eu-export-c1")
	second, err := certfile.Load(dir)
	require.NoError(t, err)
	require.NotEqual(t, first.Key, second.Key)
	require.Empty(t, m.ok("enroll", "--dir", dir, "--enrollment-token-file", "-", "--force"))
}

func TestHolderCommandErrors(t *testing.T) {
	ca := testpki.NewCA(t, "op-abc")
	good := t.TempDir()
	ca.Sender(t, controlapi.KindCluster, "c1").WriteDir(t, good, ca)
	broken := t.TempDir()
	ca.Sender(t, controlapi.KindCluster, "c1").WriteDir(t, broken, ca)
	require.NoError(t, os.WriteFile(filepath.Join(broken, "tls.crt"), []byte("-----BEGIN CERT"), 0o600))
	token := controlapi.NewSecret(controlapi.SecretEnrollment, ca.SPKIHash())
	foreign := controlapi.NewSecret(controlapi.SecretEnrollment, testpki.NewCA(t, "op-abc").SPKIHash())
	for name, tc := range map[string]struct {
		args   []string
		stdin  string
		server string
		code   int
		says   string
	}{
		"renew without dir":        {args: []string{"renew"}, code: exitUsage, says: "dir"},
		"enroll without a token":   {args: []string{"enroll", "--dir", good}, code: exitUsage, says: "enrollment-token-file"},
		"no server":                {args: []string{"renew", "--dir", good}, server: "-", code: exitUsage, says: "no control server"},
		"plain http":               {args: []string{"renew", "--dir", good, "--server", "http://x"}, code: exitUsage, says: "https://"},
		"pin mistyped":             {args: []string{"renew", "--dir", good, "--ca-pin", "sha256:00"}, code: exitUsage, says: "--ca-pin"},
		"force and watch":          {args: []string{"renew", "--dir", good, "--force", "--watch"}, code: exitUsage, says: "force"},
		"nothing to renew":         {args: []string{"renew", "--dir", t.TempDir()}, code: exitFailed, says: "ikhnos enroll"},
		"damaged PEM":              {args: []string{"renew", "--dir", broken}, code: exitFound, says: "cannot be used"},
		"server away, renew":       {args: []string{"renew", "--dir", good, "--force"}, code: exitUnreachable, says: "did not answer"},
		"server away, enroll":      {args: []string{"enroll", "--dir", t.TempDir(), "--enrollment-token-file", "-"}, stdin: token, code: exitUnreachable, says: "did not answer"},
		"token of another CA":      {args: []string{"enroll", "--dir", good, "--enrollment-token-file", "-", "--force"}, stdin: foreign, code: exitFailed, says: "token names (reason: ca_changed)"},
		"token mistyped":           {args: []string{"enroll", "--dir", t.TempDir(), "--enrollment-token-file", "-"}, stdin: token[1:], code: exitFailed, says: "mistyped"},
		"token file is not there":  {args: []string{"enroll", "--dir", good, "--enrollment-token-file", "/nowhere"}, code: exitFailed, says: "/nowhere"},
		"Secret without namespace": {args: []string{"renew", "--dir", good, "--kubernetes-secret", "x"}, code: exitUsage, says: "NAMESPACE/NAME"},
		"Secret outside a cluster": {args: []string{"renew", "--dir", good, "--kubernetes-secret", "a/b"}, code: exitFailed, says: "cluster"},
		"server is not the pinned": {args: []string{"renew", "--dir", good, "--force", "--ca-pin", "sha256:" + strings.Repeat("00", 32)}, server: "fake", code: exitUnreachable, says: "not trusted"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, nil)
			m.env.now = time.Now
			m.stdin = tc.stdin
			switch tc.server {
			case "":
				m.env.vars["IKHNOS_SERVER"] = "https://127.0.0.1:1"
			case "fake":
				m.env.vars["IKHNOS_SERVER"] = newFakeServer(t, nil).URL
			}
			got := m.run(tc.args...)
			require.Equal(t, tc.code, got.code, got.stderr)
			require.Contains(t, got.stderr, tc.says)
			require.LessOrEqual(t, strings.Count(got.stderr, "ca_changed"), 1, "the reason is said once")
			require.NotContains(t, got.stderr, token[8:])
		})
	}
}

// --watch renews when it is time, says what changed, and ends well when stopped.
func TestRenewWatch(t *testing.T) {
	s := newRealServer(t)
	m := holderMachine(t, s)
	m.stdin = connected(s)
	dir, mark := t.TempDir(), filepath.Join(t.TempDir(), "reloaded")
	m.ok("enroll", "--dir", dir, "--enrollment-token-file", "-")
	first, err := certfile.Load(dir)
	require.NoError(t, err)
	due := *first
	due.RenewAfter = time.Now().Add(-time.Minute)
	require.NoError(t, certfile.Publish(dir, &due))

	ctx, cancel := context.WithCancel(withEnvironment(t.Context(), m.env))
	var stdout, stderr bytes.Buffer
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, []string{"renew", "--dir", dir, "--watch", "--exec-after", "touch '" + mark + "'"}, strings.NewReader(""), &stdout, &stderr)
	}()
	require.Eventually(t, func() bool {
		_, err := os.Stat(mark)
		return err == nil
	}, time.Minute, 20*time.Millisecond)
	cancel()
	require.Equal(t, exitDone, <-done, stderr.String())
	require.Contains(t, stdout.String(), "issued op-eu-export-c1")
	second, err := certfile.Load(dir)
	require.NoError(t, err)
	require.NotEqual(t, first.Certificate, second.Certificate)
}
