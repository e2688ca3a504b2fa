// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/internal/controlapi"
)

func TestTokenCreate(t *testing.T) {
	token := controlapi.NewSecret(controlapi.SecretEnrollment, make([]byte, 32))
	f := newFakeServer(t, fleetAnswers(token, ""))
	m := newMachine(t, f)
	args := []string{"token", "create", "--operator", "op-eu", "--sender", "c9", "--ttl", "90s"}

	got := m.run(args...)
	assert.Equal(t, result{code: exitDone, stdout: token + "\n"}, got, "a script gets the secret and nothing else")
	assert.Equal(t, []string{`POST /api/v1/orgs/default/operators/op-eu/enrollment-tokens {"role":"sender","sender":"c9","ttl":"1m30s"}`}, f.requests)

	m.env.errTerminal = true
	assert.Equal(t, "one-use token of op-eu-export-c9, until 2026-11-30T13:03:05Z, shown once:\n", m.run(args...).stderr)
	assert.Empty(t, m.run(append(args, "--quiet")...).stderr)

	path := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o644))
	out := m.ok(append(args, "--out", path)...)
	assert.NotContains(t, out, token)
	assert.Contains(t, out, path)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, token+"\n", string(content))
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	assert.NotContains(t, m.ok(append(args, "--out", path, "-o", "json")...), token)
	assert.Contains(t, m.ok(append(args, "-o", "json")...), token)

	got = m.run(append(args, "--out", filepath.Join(path, "no"))...)
	assert.Equal(t, exitFailed, got.code)
	assert.NotContains(t, got.stderr+got.stdout, token)
}

func TestTokenForNoConnection(t *testing.T) {
	got := newMachine(t, newFakeServer(t, nil)).run("token", "create", "--operator", "op-eu", "--role", "sender", "--sender", "c9")
	assert.Equal(t, exitRefused, got.code)
	golden(t, "token-no-connection.golden.txt", got.stderr)
}

func TestShowInitial(t *testing.T) {
	dir := t.TempDir()
	m := newMachine(t, nil)
	got := m.run("admin-token", "show-initial", "--data-dir", dir)
	assert.Equal(t, exitFailed, got.code)
	assert.Contains(t, got.stderr, "error: the initial admin token cannot be read\n  why   ")

	token := controlapi.NewSecret(controlapi.SecretAdmin, nil)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "admin.token"), []byte(token+"\n"), 0o600))
	assert.Equal(t, token+"\n", m.ok("admin-token", "show-initial", "--data-dir", dir))

	require.NoError(t, os.WriteFile(filepath.Join(dir, "admin.token"), []byte(token[:20]), 0o600))
	got = m.run("admin-token", "show-initial", "--data-dir", dir)
	assert.Equal(t, exitFailed, got.code)
	assert.NotContains(t, got.stderr, token[:20])
}

func TestAdminTokenCreate(t *testing.T) {
	f := newFakeServer(t, map[string]any{"POST /api/v1/orgs/default/admin-tokens": map[string]any{
		"tokenId": "adm-1", "token": "ikadm_x", "name": "ci", "role": "connector"}})
	m := newMachine(t, f)
	assert.Equal(t, "ikadm_x\n", m.ok("admin-token", "create", "ci", "--role", "connector", "--expires", "24h"))
	assert.Equal(t, []string{`POST /api/v1/orgs/default/admin-tokens {"name":"ci","role":"connector","expiresAt":"2026-12-01T12:03:10Z"}`}, f.requests)
}
