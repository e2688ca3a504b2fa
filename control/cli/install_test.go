// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/internal/controlapi"
)

// fleetAnswers is a server with a central and a regional operator and a sender.
func fleetAnswers(token, heartbeat string) map[string]any {
	const org = "/api/v1/orgs/default"
	regional := map[string]any{
		"id": "op-eu", "name": "EU $West's", "role": "regional", "state": "active", "address": "eu.example.com:4317", "heartbeat": "on",
		"labels": map[string]any{"region": "eu-west"}, "destination": map[string]any{"kind": "operator", "operatorId": "op-central"},
	}
	central := map[string]any{"id": "op-central", "name": "Central", "role": "central", "state": "active", "address": ""}
	minted := map[string]any{"tokenId": "tok-1", "token": token, "role": "sender", "name": "op-eu-export-c9", "expiresAt": "2026-11-30T13:03:05Z"}
	sender := map[string]any{"name": "op-eu-export-c9", "holderId": "c9", "kind": "cluster", "operatorId": "op-eu", "state": "allowed",
		"warnings": []any{"The label region stands on both."}}
	return map[string]any{
		"GET " + org + "/operators/op-eu":      regional,
		"POST " + org + "/operators":           regional,
		"GET " + org + "/operators/op-central": central,
		"POST " + org + "/operators/op-eu/install": map[string]any{
			"format": "shell", "expiresAt": "2026-11-30T13:03:05Z", "warnings": []any{"Start the server with --public-url."},
			"blocks": []any{
				map[string]any{"where": "in the operator's cluster", "title": "the token", "file": "token.sh", "text": "kubectl create <<'END'\n" + token + "\nEND\n"},
				map[string]any{"where": "in the operator's cluster", "title": "the operator itself", "file": "../install.sh", "text": "helm upgrade --install 'op-eu'\n"},
			},
		},
		"POST " + org + "/operators/op-eu/heartbeat":               map[string]any{"secret": heartbeat},
		"POST " + org + "/operators/op-eu/enrollment-tokens":       minted,
		"POST " + org + "/operators/op-central/enrollment-tokens":  minted,
		"PUT " + org + "/operators/op-eu/senders/c9":               sender,
		"GET " + org + "/operators/op-eu/senders/c9":               sender,
		"POST " + org + "/operators/op-eu/senders/c9/restore":      map[string]any{"name": "op-eu-export-c9", "token": token},
		"POST " + org + "/operators/op-eu/senders/c9/rekey":        map[string]any{"name": "op-eu-export-c9", "token": token},
		"POST " + org + "/operators/op-eu/senders/lifted/restore":  map[string]any{"name": "op-eu-export-lifted"},
		"DELETE " + org + "/operators/op-eu/enrollment-tokens/tok": nil,
	}
}

func TestPrintedCommands(t *testing.T) {
	token := controlapi.NewSecret(controlapi.SecretEnrollment, make([]byte, 32))
	heartbeat := controlapi.NewSecret(controlapi.SecretHeartbeat, nil)
	tests := map[string][]string{
		"sender-connect":           {"sender", "connect", "c9", "--operator", "op-eu"},
		"sender-connect-systemd":   {"sender", "connect", "c9", "--operator", "op-eu", "--format", "systemd"},
		"sender-connect-shell":     {"sender", "connect", "c9", "--operator", "op-eu", "--format", "shell"},
		"sender-connect-continuum": {"sender", "connect", "c9", "--operator", "op-eu", "--collector", "continuum"},
		"sender-restore":           {"sender", "restore", "c9", "--operator", "op-eu"},
		"sender-rekey":             {"sender", "rekey", "c9", "--operator", "op-eu", "--overlap", "2h"},
		"operator-create":          {"operator", "create", "EU $West's", "--destination", "op-central", "--label", "region=eu-west", "--heartbeat", "on"},
		"operator-install-central": {"operator", "install", "op-central"},
		"operator-install":         {"operator", "install", "op-eu", "--format", "shell"},
		"operator-heartbeat":       {"operator", "heartbeat", "op-eu", "--format", "shell"}, // HB-16
	}
	for name, args := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFakeServer(t, fleetAnswers(token, heartbeat))
			got := newMachine(t, f).ok(args...)
			golden(t, name+".golden.txt", got, f.URL, "https://ikhnos.example.com", f.pin(), "sha256:PIN",
				token, "TOKEN", heartbeat, "HEARTBEAT")
			for _, line := range strings.Split(got, "\n") {
				if strings.Contains(line, token) || strings.Contains(line, heartbeat) {
					assert.NotContains(t, line, " ", "a secret stands alone, never as an argument")
				}
			}
			checkShell(t, got)
		})
	}
}

// checkShell lets sh read every printed block that is one.
func checkShell(t *testing.T, printed string) {
	t.Helper()
	for _, b := range strings.Split(printed, "\n\n# ")[1:] {
		_, script, _ := strings.Cut(b, "\n")
		if strings.HasPrefix(script, "exporters:") {
			continue
		}
		cmd := exec.Command("sh", "-n")
		cmd.Stdin = strings.NewReader(script)
		out, err := cmd.CombinedOutput()
		assert.NoError(t, err, "%s\n%s", script, out)
	}
}

func TestOutDir(t *testing.T) {
	token := controlapi.NewSecret(controlapi.SecretEnrollment, make([]byte, 32))
	f := newFakeServer(t, fleetAnswers(token, ""))
	dir := filepath.Join(t.TempDir(), "new")
	got := newMachine(t, f).run("sender", "connect", "c9", "--operator", "op-eu", "--out-dir", dir)
	assert.Equal(t, exitDone, got.code)
	assert.Equal(t, "warning: The label region stands on both.\n", got.stderr)
	assert.NotContains(t, got.stdout, token)
	for _, name := range []string{"01-enroll.sh", "02-renew.sh", "03-exporter.yaml"} {
		assert.Contains(t, got.stdout, filepath.Join(dir, name))
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}
	script, err := os.ReadFile(filepath.Join(dir, "01-enroll.sh"))
	require.NoError(t, err)
	assert.Contains(t, string(script), "\n"+token+"\n")
}

// HB-11, HB-16: the secret stands alone, or in commands for where the operator runs.
func TestHeartbeatSecret(t *testing.T) {
	heartbeat := controlapi.NewSecret(controlapi.SecretHeartbeat, nil)
	m := newMachine(t, newFakeServer(t, fleetAnswers("", heartbeat)))
	assert.Equal(t, heartbeat+"\n", m.ok("operator", "heartbeat", "op-eu"))
	assert.JSONEq(t, `{"secret":"`+heartbeat+`"}`, m.ok("operator", "heartbeat", "op-eu", "-o", "json"))
	dir := t.TempDir()
	assert.NotContains(t, m.ok("operator", "heartbeat", "op-eu", "--format", "systemd", "--out-dir", dir), heartbeat)
	assert.FileExists(t, filepath.Join(dir, "01-heartbeat.sh"))
	assert.FileExists(t, filepath.Join(dir, "02-restart.sh"))
	for _, args := range [][]string{{"--out", "x"}, {"-o", "json"}} {
		assert.Equal(t, exitUsage, m.run(append([]string{"operator", "heartbeat", "op-eu", "--format", "shell"}, args...)...).code)
	}
}

// keys are asked for by a flag, in formats that can print them, and before
// anything is made.
func TestWithKeys(t *testing.T) {
	f := newFakeServer(t, fleetAnswers("", ""))
	m := newMachine(t, f)
	for _, args := range [][]string{
		{"operator", "create", "EU", "--with-keys"}, {"operator", "install", "op-eu", "--with-keys"},
		{"operator", "install", "op-eu", "--with-keys", "--format", "systemd"},
	} {
		got := m.run(args...)
		assert.Equal(t, exitUsage, got.code)
		assert.Contains(t, got.stderr, "ikhnos enroll --dir")
	}
	assert.Empty(t, f.requests)
	assert.Contains(t, m.ok("operator", "install", "op-eu", "--with-keys", "--format", "manifests"), "its certificates are good until")
	assert.Contains(t, strings.Join(f.requests, "\n"), `"keys":"printed"`)
}

// A server names files, and they stay in the directory.
func TestOutDirHolds(t *testing.T) {
	f := newFakeServer(t, fleetAnswers(controlapi.NewSecret(controlapi.SecretEnrollment, make([]byte, 32)), ""))
	dir := t.TempDir()
	newMachine(t, f).ok("operator", "install", "op-eu", "--format", "shell", "--out-dir", dir)
	assert.FileExists(t, filepath.Join(dir, "01-token.sh"))
	assert.FileExists(t, filepath.Join(dir, "02-install.sh"))
}

func TestJSONMintsNothing(t *testing.T) {
	f := newFakeServer(t, fleetAnswers("", ""))
	m := newMachine(t, f)
	assert.Contains(t, m.ok("sender", "connect", "c9", "--operator", "op-eu", "-o", "json"), `"name": "op-eu-export-c9"`)
	assert.Contains(t, m.ok("operator", "create", "EU", "-o", "json"), `"id": "op-eu"`)
	assert.NotEmpty(t, f.requests)
	for _, request := range f.requests {
		assert.NotContains(t, request, "enrollment-tokens")
	}
}

func TestLiftedHoldNeedsNoToken(t *testing.T) {
	f := newFakeServer(t, fleetAnswers("", ""))
	got := newMachine(t, f).ok("sender", "restore", "lifted", "--operator", "op-eu")
	assert.Equal(t, "restored op-eu-export-lifted: its certificate works again\n", got)
}
