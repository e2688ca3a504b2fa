// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ikhnos/continuum/internal/controlapi"
)

// A connection keeps the address it dials until another one, or none, is given.
func TestConnectAgain(t *testing.T) {
	s := newRealServer(t)
	s.exec(exitDone, "cluster", "add", "c1", "--approve")
	s.exec(exitDone, "operator", "create", "EU", "--id", "op-eu", "--role", "central")
	connect := []string{"sender", "connect", "c1", "--operator", "op-eu"}
	const dials = `endpoint: "eu.example.com:4317"`
	assert.NotContains(t, s.exec(exitDone, connect...), dials)
	assert.Contains(t, s.exec(exitDone, append(connect, "--address", "eu.example.com")...), dials)
	assert.Contains(t, s.exec(exitDone, connect...), dials)
	assert.Contains(t, s.exec(exitDone, "sender", "get", "c1"), "eu.example.com:4317")
	assert.NotContains(t, s.exec(exitDone, append(connect, "--address", "")...), dials)
	s.scan()
}

// AD-19: until somebody records an address, what is printed works only inside the
// operator's own cluster, and the warning says so.
func TestNoAddressIsRecorded(t *testing.T) {
	answers := fleetAnswers(controlapi.NewSecret(controlapi.SecretEnrollment, make([]byte, 32)), "")
	answers["GET /api/v1/orgs/default/operators/op-eu"] = map[string]any{"id": "op-eu", "role": "regional", "address": ""}
	m := newMachine(t, newFakeServer(t, answers))
	const inside = "warning: op-eu has no address, so it is only reachable inside its own cluster as op-eu-regional-operator.continuum-system.svc:4317; "
	connected := m.run("sender", "connect", "c9", "--operator", "op-eu", "--out-dir", filepath.Join(t.TempDir(), "out"))
	assert.Contains(t, connected.stderr, inside+"give --address or record one: ikhnos operator address op-eu HOST:PORT; ")
	assert.Contains(t, m.run("sender", "restore", "c9", "--operator", "op-eu").stderr, inside+"record one: ")
}
