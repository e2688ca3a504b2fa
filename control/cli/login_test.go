// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/internal/controlapi"
)

func TestLogin(t *testing.T) {
	f := newFakeServer(t, map[string]any{
		"GET /api/v1/orgs/default/clusters": page(),
		"GET /api/v1/orgs":                  page(map[string]any{"id": "default", "name": "Default"}),
	})
	token := controlapi.NewSecret(controlapi.SecretAdmin, nil)
	m := newMachine(t, nil)
	m.stdin = token + "\n"
	assert.Contains(t, m.ok("login", "--server", f.URL+"/", "--ca-pin", f.pin(), "--name", "home"),
		"logged in to "+f.URL+" as context home, organisation default")

	path := m.env.contextPath()
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	dir, err := os.Stat(filepath.Dir(path))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o700), dir.Mode().Perm())

	assert.Equal(t, "ID       NAME\ndefault  Default\n", m.ok("org", "list"), "the saved server, token and pin are used")
	assert.Equal(t, "Bearer "+token, f.headers[len(f.headers)-1].Get("Authorization"))

	m.stdin = token + "\n"
	m.ok("login", "--server", f.URL, "--ca-pin", f.pin(), "--name", "away", "--org", "default")
	listed := m.ok("context", "list")
	assert.Contains(t, listed, "*  away  "+f.URL)
	assert.NotContains(t, listed+m.ok("context", "list", "-o", "json"), token)
	assert.Equal(t, "using home\n", m.ok("context", "use", "home"))
	assert.Contains(t, m.ok("context", "list"), "*  home")
	got := m.run("context", "use", "hoem")
	assert.Equal(t, exitUsage, got.code)
	assert.Equal(t, "error: there is no context \"hoem\"; did you mean home?\n"+
		"  why   the command line does not say what is meant, so nothing was done\n  do    ikhnos context use --help\n", got.stderr)
}

// A token that was saved for one server is never sent to another.
func TestSavedTokenStaysWithItsServer(t *testing.T) {
	home, other := newFakeServer(t, nil), newFakeServer(t, nil)
	m := newMachine(t, nil)
	file := &contextFile{}
	file.put(savedContext{Name: "home", Server: home.URL, Token: controlapi.NewSecret(controlapi.SecretAdmin, nil), CAPins: []string{home.pin()}})
	require.NoError(t, m.env.saveContexts(file))
	for _, args := range [][]string{{"--server", other.URL}, {"--server", other.URL, "--context", "home"}} {
		got := m.run(append(args, "org", "list")...)
		assert.Equal(t, exitUsage, got.code)
		assert.Contains(t, got.stderr, "error: no admin token for "+other.URL)
	}
	m.env.vars["IKHNOS_SERVER"] = other.URL
	assert.Equal(t, exitUsage, m.run("org", "list").code)
	assert.Empty(t, other.requests)
}

func TestLoginAsksForThePin(t *testing.T) {
	f := newFakeServer(t, map[string]any{"GET /api/v1/orgs/default/clusters": page()})
	m := newMachine(t, nil)
	m.env.vars["IKHNOS_TOKEN"] = controlapi.NewSecret(controlapi.SecretAdmin, nil)

	got := m.run("login", "--server", f.URL)
	assert.Equal(t, exitUsage, got.code)
	assert.Contains(t, got.stderr, "is from no CA that this machine trusts\n  why   ")
	assert.NotContains(t, got.stderr, f.pin()[7:], "a script does not learn a pin that nobody compared")

	m.env.inTerminal = true
	m.stdin = "no\n"
	got = m.run("login", "--server", f.URL)
	assert.Equal(t, exitUsage, got.code)
	assert.Contains(t, got.stderr, inGroups(f.pin()[7:]))
	assert.Contains(t, got.stderr, "error: not trusted: nothing was stored\n")
	assert.Empty(t, f.requests, "no token went to a server that is not trusted")
	assert.NoFileExists(t, m.env.contextPath())

	m.stdin = "yes\n"
	assert.Contains(t, m.ok("login", "--server", f.URL), "as context 127.0.0.1")
	file, err := m.env.loadContexts()
	require.NoError(t, err)
	assert.Equal(t, []string{f.pin()}, file.Contexts[0].CAPins)
}

func TestLoginReadsTheTokenUnseen(t *testing.T) {
	f := newFakeServer(t, map[string]any{"GET /api/v1/orgs/default/clusters": page()})
	token := controlapi.NewSecret(controlapi.SecretAdmin, nil)
	m := newMachine(t, nil)
	m.env.readSecret = func() (string, error) { return token, nil }
	got := m.run("login", "--server", f.URL, "--ca-pin", f.pin())
	assert.Equal(t, exitDone, got.code, got.stderr)
	assert.NotContains(t, got.stdout+got.stderr, token)
}

func TestLoginRefusals(t *testing.T) {
	f := newFakeServer(t, map[string]any{
		"GET /api/v1/orgs/default/clusters": controlapi.NewProblem(controlapi.ReasonAdminUnauthenticated, ""),
	})
	tests := map[string]struct {
		args  []string
		stdin string
		code  int
		want  string
	}{
		"no server":       {nil, "", exitUsage, "error: ikhnos login needs --server"},
		"http":            {[]string{"--server", "http://localhost"}, "", exitUsage, "error: the server's address must be https://"},
		"no token":        {[]string{"--server", f.URL, "--ca-pin", f.pin()}, "", exitUsage, "error: no admin token"},
		"not a token":     {[]string{"--server", f.URL, "--ca-pin", f.pin()}, "hunter2\n", exitUsage, "error: reading the admin token: not a secret of this kind"},
		"token not known": {[]string{"--server", f.URL, "--ca-pin", f.pin()}, controlapi.NewSecret(controlapi.SecretAdmin, nil), exitRefused, "(reason: admin_unauthenticated)"},
		"nobody there":    {[]string{"--server", "https://127.0.0.1:1"}, "", exitUnreachable, "error: the control server did not answer"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, nil)
			m.stdin = test.stdin
			got := m.run(append([]string{"login"}, test.args...)...)
			assert.Equal(t, test.code, got.code)
			assert.Contains(t, got.stderr, test.want)
			assert.NotContains(t, got.stderr, "hunter2")
			assert.NoFileExists(t, m.env.contextPath())
		})
	}
}

// What is wrong with a setting is told with the place that it came from.
func TestLoginNamesWhereASettingCameFrom(t *testing.T) {
	token := controlapi.NewSecret(controlapi.SecretAdmin, nil)
	path := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(path, []byte("abc"), 0o600))
	for name, test := range map[string]struct {
		pin, token string // of the environment
		args       []string
		want       string
	}{
		"pin variable":   {"PIN", token, nil, "this is no CA pin: IKHNOS_CA_PIN\n"},
		"pin flag":       {"", token, []string{"--ca-pin", "PIN"}, "this is no CA pin: --ca-pin\n"},
		"token variable": {"", "abc", []string{"--ca-pin", "sha256:" + strings.Repeat("00", 32)}, "this is no admin token: IKHNOS_TOKEN\n"},
		"token file":     {"", token, []string{"--ca-pin", "sha256:" + strings.Repeat("00", 32), "--token-file", path}, "this is no admin token: --token-file\n"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, nil)
			m.env.vars["IKHNOS_CA_PIN"], m.env.vars["IKHNOS_TOKEN"] = test.pin, test.token
			for _, cmd := range []string{"login", "doctor"} {
				got := m.run(append([]string{cmd, "--server", "https://127.0.0.1:1"}, test.args...)...)
				assert.Equal(t, exitUsage, got.code, got.stderr)
				assert.Contains(t, got.stderr, "error: "+test.want)
				assert.NotContains(t, got.stderr, "abc")
			}
		})
	}
}

func TestDamagedContextFile(t *testing.T) {
	m := newMachine(t, nil)
	require.NoError(t, os.MkdirAll(filepath.Dir(m.env.contextPath()), 0o700))
	for _, content := range []string{"{", `{"x":1}`, `{"current":"a","contexts":[]} {}`} {
		require.NoError(t, os.WriteFile(m.env.contextPath(), []byte(content), 0o600))
		got := m.run("org", "list")
		assert.Equal(t, exitFailed, got.code)
		assert.Contains(t, got.stderr, m.env.contextPath())
	}
}
