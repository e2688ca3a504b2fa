// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/test/testbed"
)

// TestDemo runs `ikhnos demo --once` as `make demo ONCE=1` does, with its state in
// a path with a space, and looks that it told every chapter and left nothing.
func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("starts six processes")
	}
	dir := testbed.Dir(t)
	cmd := exec.CommandContext(testbed.Context(t, 15*time.Minute), testbed.Program(t, "ikhnos"), "demo", "--once")
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, chapter := range []string{"enrolled", "record", "forged", "renewed", "cut off", "every check passed"} {
		assert.Contains(t, string(out), chapter)
	}
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left)
}
