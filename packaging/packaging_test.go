// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package packaging_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The packages of two programs that are empty scripts: their contents, modes and
// scripts are checked by scripts/packages-check, which `make packages` runs on the
// real ones. A second build has the same bytes.
func TestPackages(t *testing.T) {
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("there is no dpkg-deb to look into the packages with")
	}
	bin := t.TempDir()
	for _, name := range []string{"continuum-collector", "ikhnos"} {
		require.NoError(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"), 0o755))
	}
	sums := make([]string, 2)
	for i := range sums {
		dist := filepath.Join(t.TempDir(), "a folder")
		cmd := exec.CommandContext(t.Context(), filepath.Join("..", "scripts", "packages"), "0.1.0", dist)
		cmd.Env = append(os.Environ(), "CONTINUUM_BIN="+bin, "SOURCE_DATE_EPOCH=1700000000")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		text, err := os.ReadFile(filepath.Join(dist, "SHA256SUMS"))
		require.NoError(t, err)
		sums[i] = string(text)
	}
	require.Contains(t, sums[0], "continuum-collector_0.1.0_")
	require.Contains(t, sums[0], "ikhnos-0.1.0-1.")
	require.Equal(t, sums[0], sums[1])
}
