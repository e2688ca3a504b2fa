// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/test/testbed"
)

// TestByHand runs the example that enrols, renews, revokes and verifies with curl
// and openssl alone: what the contract says is all that a client has to know.
func TestByHand(t *testing.T) {
	script, err := filepath.Abs("../../docs/examples/by-hand.sh")
	require.NoError(t, err)
	server := testbed.StartServer(t)
	token, err := os.ReadFile(server.AdminTokenFile())
	require.NoError(t, err)
	for _, run := range []string{"first", "again"} {
		files := filepath.Join(testbed.Dir(t), run)
		cmd := exec.CommandContext(testbed.Context(t, 5*time.Minute), "bash", script, files)
		cmd.Env = append(os.Environ(), "IKHNOS_SERVER="+server.URL, "IKHNOS_CA_PIN="+server.Pin, "IKHNOS_TOKEN="+strings.TrimSpace(string(token)))
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		assert.Contains(t, string(out), "All checks passed.")
		assert.NotContains(t, string(out), "iktok_")
		assert.NotContains(t, string(out), "ikadm_")
		assert.FileExists(t, filepath.Join(files, "policy.json"))
	}
	server.Stop()
	assert.NoError(t, server.Err())
}
