// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// program returns the path of a program that `make build` made.
func program(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("CONTINUUM_BIN")
	if dir == "" {
		dir = filepath.Join("..", "..", "bin")
	}
	path, err := filepath.Abs(filepath.Join(dir, name))
	require.NoError(t, err)
	require.FileExists(t, path, "run `make build` first")
	return path
}

// spacedDir is a folder with a space in its path.
func spacedDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "a folder")
	require.NoError(t, os.Mkdir(dir, 0o700))
	return dir
}

func testContext(t *testing.T, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}
