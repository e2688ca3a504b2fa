// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The rows of the first round in the table of the command line, each with its
// notable flags.
func TestSurface(t *testing.T) {
	for path, flags := range map[string]string{
		"demo": "once keep port-base", "server": "admin-listen metrics-listen audit-log migrate chart-registry",
		"login": "ca-pin token-file", "context list": "", "context use": "", "status": "watch", "apply": "file dry-run prune out-dir yes", "export": "",
		"org create": "", "org list": "", "cluster add": "kind label tenant approve silent-after", "cluster list": "", "cluster get": "",
		"cluster approve": "", "cluster set": "kind label tenant silent-after", "cluster revoke": "wait", "cluster delete": "wait",
		"operator create": "id role destination format", "operator list": "", "operator get": "", "operator address": "", "operator heartbeat": "format out-dir",
		"operator install": "format with-keys", "operator revoke": "confirm", "operator delete": "confirm", "operator retire": "format",
		"sender connect": "operator address format out-dir ttl", "sender wait": "timeout", "sender list": "state operator cluster", "sender get": "",
		"sender revoke": "reason wait force", "sender rekey": "overlap", "sender restore": "", "receipt get": "",
		"cert list": "ends-before failing holder", "cert get": "", "cert revoke": "", "cert inspect": "", "cert adopt": "issued-after dry-run",
		"token create": "ttl uses name-pattern out", "token list": "", "token revoke": "", "admin-token create": "role expires",
		"admin-token list": "", "admin-token revoke": "", "admin-token show-initial": "", "admin-token reset": "", "policy get": "diff",
		"audit list": "since", "audit export": "since format", "ledger verify": "file", "ledger head": "", "ledger export": "",
		"backup": "out encrypt-to", "backup verify": "", "restore": "", "passphrase check": "", "passphrase change": "new-file", "ca show": "",
		"enroll": "dir kubernetes-secret", "renew": "dir watch kubernetes-secret exec-after", "check config": "", "doctor": "operator-address",
		"explain": "", "version": "check",
	} {
		cmd, rest, err := New().Find(strings.Fields(path))
		require.NoError(t, err, path)
		assert.Empty(t, rest, path)
		assert.True(t, cmd.Runnable(), path)
		for _, flag := range strings.Fields(flags) {
			assert.NotNil(t, cmd.Flag(flag), "%s --%s", path, flag)
		}
	}
}

// How an operator leaves, what it trusts and what its instances enforce.
func TestOperatorState(t *testing.T) {
	s := newRealServer(t)
	s.exec(exitDone, "operator", "create", "Central", "--id", "op-central", "--role", "central")
	_, receiver := s.enroll(s.exec(exitDone, "operator", "create", "EU", "--id", "op-eu", "--destination", "op-central"))
	s.exec(exitDone, "cluster", "add", "c1", "--approve")
	s.exec(exitDone, "sender", "connect", "c1", "--operator", "op-eu", "--address", "10.0.0.7")

	shown := s.exec(exitDone, "ca", "show", "op-eu")
	assert.Contains(t, shown, "-----BEGIN CERTIFICATE-----")
	assert.Contains(t, shown, "kept by the server")
	assert.Regexp(t, `(?m)^op-central +in 5\.0 years +kept by the server +sha256:[0-9a-f]{64}$`, s.exec(exitDone, "ca", "show"))

	assert.Contains(t, s.exec(exitDone, "policy", "get", "op-eu"), "No instance has reported.")
	s.report(receiver, 1<<40, "op-eu-export-c1")
	assert.Regexp(t, `every instance of op-eu enforces 1\.\d+`, s.exec(exitDone, "policy", "get", "op-eu", "--diff"))
	s.exec(exitNotConfirmed, "sender", "revoke", "c1", "--operator", "op-eu", "--wait", "0s")
	late := s.exec(exitFound, "policy", "get", "op-eu", "--diff")
	assert.Regexp(t, `op-eu / 9f1c enforces 1\.\d+ instead of 1\.\d+, reported \d+ s ago\n  op-eu-export-c1  revoked since 1\.\d+\n`, late)
	assert.Regexp(t, `9f1c +1\.\d+, not the present one`, s.exec(exitDone, "policy", "get", "op-eu"))
	assert.Contains(t, s.exec(exitFound, "version", "--check"), "collector  test at op-eu")

	s.exec(exitDone, "sender", "restore", "c1", "--operator", "op-eu")
	steps := s.exec(exitDone, "operator", "retire", "op-eu", "--to", "op-central")
	last := -1
	for _, want := range []string{
		"sender connect c1 --operator op-central", "sender wait c1 --operator op-central", "sender revoke c1 --operator op-eu --reason retired",
		"operator revoke op-eu --confirm op-eu", "helm uninstall op-eu", "operator delete op-eu --confirm op-eu",
	} {
		at := strings.Index(steps, want)
		assert.Greater(t, at, last, want)
		last = at
	}
	assert.Contains(t, s.exec(exitDone, "operator", "retire", "op-central", "--format", "shell"), "\nikhnos operator retire op-eu\n")
	s.exec(exitRefused, "operator", "retire", "op-none")
	s.exec(exitRefused, "operator", "retire", "op-eu", "--to", "op-none")
	s.exec(exitUsage, "operator", "retire", "op-eu", "--to", "op-eu")
	s.exec(exitNotConfirmed, "operator", "revoke", "op-eu", "--force", "--wait", "0s", "--yes")
	assert.Contains(t, s.exec(exitDone, "ca", "show", "op-eu"), "erased")
	s.scan()
}

// A token works once, for one name; a pattern makes several.
func TestTokenPattern(t *testing.T) {
	s := newRealServer(t)
	s.exec(exitDone, "operator", "create", "Central", "--id", "op-central", "--role", "central")
	for _, id := range []string{"edge-1", "edge-2", "core"} {
		s.exec(exitDone, "cluster", "add", id, "--approve")
		s.exec(exitDone, "sender", "connect", id, "--operator", "op-central")
	}
	s.exec(exitUsage, "token", "create", "--operator", "op-central", "--name-pattern", "edge-*")
	s.exec(exitUsage, "token", "create", "--operator", "op-central", "--sender", "core", "--uses", "2")
	s.exec(exitUsage, "token", "create", "--operator", "op-central", "--name-pattern", "[")
	s.exec(exitRefused, "token", "create", "--operator", "op-central", "--name-pattern", "none-*")
	path := filepath.Join(t.TempDir(), "tokens")
	said := s.exec(exitDone, "token", "create", "--operator", "op-central", "--name-pattern", "edge-*", "--uses", "2", "--out", path)
	assert.NotContains(t, said, "iktok_")
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := regexp.MustCompile(`(?m)^op-central-export-edge-(\d)\t(iktok_\S+)$`).FindAllStringSubmatch(string(content), -1)
	require.Len(t, lines, 2)
	issued, _ := s.enroll(lines[1][2])
	assert.Equal(t, "op-central-export-edge-2", issued.Name)

	s.exec(exitDone, "operator", "create", "EU", "--id", "op-eu", "--destination", "op-central")
	s.exec(exitDone, "sender", "connect", "core", "--operator", "op-eu")
	r := s.run("sender", "revoke", "op-eu", "--operator", "op-central", "--wait", "0s")
	assert.Equal(t, exitRefused, r.code)
	assert.Contains(t, r.stderr, "op-eu is in use (reason: in_use)")
	s.exec(exitNotConfirmed, "sender", "revoke", "op-eu", "--operator", "op-central", "--wait", "0s", "--force")
}

// The server's machine: a schema brought up to date, and a new first token when all
// are lost.
func TestServersMachine(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	m := newMachine(t, nil)
	assert.Regexp(t, `^the database has schema \d+, `, m.ok("server", "--migrate", "--data-dir", dir))
	assert.Equal(t, exitUsage, m.run("server", "--migrate", "--data-dir", dir, "--chart-registry", "registry.example.com").code)
	assert.NoFileExists(t, filepath.Join(dir, "admin.token"))

	require.NoError(t, serveTest(t, testConfig(dir), time.Now).stop())
	old := m.ok("admin-token", "show-initial", "--data-dir", dir)
	said := m.ok("admin-token", "reset", "--data-dir", dir)
	assert.Contains(t, said, "1 earlier token ended")
	assert.NotContains(t, said, "ikadm_")
	fresh := m.ok("admin-token", "show-initial", "--data-dir", dir)
	assert.NotEqual(t, old, fresh)

	second := serveTest(t, testConfig(dir), time.Now)
	m.env.vars["IKHNOS_SERVER"], m.env.vars["IKHNOS_CA_PIN"], m.env.vars["IKHNOS_TOKEN"] = second.url, second.pin, strings.TrimSpace(old)
	assert.Equal(t, exitRefused, m.run("org", "list").code)
	m.env.vars["IKHNOS_TOKEN"] = strings.TrimSpace(fresh)
	m.ok("org", "list")
	assert.Equal(t, exitFailed, m.run("admin-token", "reset", "--data-dir", dir).code, "a server has the data")
}

// Names, words and contexts are completed.
func TestCompletion(t *testing.T) {
	s := newRealServer(t)
	s.exec(exitDone, "operator", "create", "Central", "--id", "op-central", "--role", "central")
	s.exec(exitDone, "cluster", "add", "c1", "--approve")
	s.exec(exitDone, "sender", "connect", "c1", "--operator", "op-central")
	for line, want := range map[string]string{
		"operator get ":                              "op-central\n",
		"cluster approve ":                           "c1\n",
		"sender get --operator op-central ":          "c1\n",
		"sender connect c1 --operator ":              "op-central\n",
		"sender revoke c1 --operator op-x --reason ": "compromised\nretired\nhold\n",
		"--org ":                   "default\n",
		"operator get op-central ": "",
		"--context ":               "",
	} {
		args := append([]string{"__complete"}, strings.Split(line, " ")...)
		got := s.run(args...)
		assert.Equal(t, exitDone, got.code, line)
		assert.Equal(t, want+":4\n", got.stdout, line)
	}
	s.env.vars["IKHNOS_SERVER"] = "https://127.0.0.1:1"
	assert.Equal(t, ":4\n", s.run("__complete", "operator", "get", "").stdout, "without an answer there is nothing to offer")
}
