// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestByHand runs the example that enrols, renews, revokes and verifies with curl
// and openssl alone: what the contract says is all that a client has to know.
func TestByHand(t *testing.T) {
	script, err := filepath.Abs("../../docs/examples/by-hand.sh")
	require.NoError(t, err)
	server := (&killSite{t: t, program: program(t, "ikhnos"), dir: spacedDir(t)}).start()
	defer server.stop(t)
	for _, run := range []string{"first", "again"} {
		files := filepath.Join(spacedDir(t), run)
		cmd := exec.CommandContext(testContext(t, 5*time.Minute), "bash", script, files)
		cmd.Env = append(os.Environ(), "IKHNOS_SERVER="+server.url, "IKHNOS_CA_PIN="+server.pin, "IKHNOS_TOKEN="+server.token)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		assert.Contains(t, string(out), "All checks passed.")
		assert.NotContains(t, string(out), "iktok_")
		assert.NotContains(t, string(out), "ikadm_")
		assert.FileExists(t, filepath.Join(files, "policy.json"))
	}
}
