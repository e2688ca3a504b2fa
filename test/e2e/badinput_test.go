// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/test/testbed"
)

// TestServerBadInput: each mistake at the start is one clear error that names what
// is wrong, and the program ends.
func TestServerBadInput(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = taken.Close() }()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))

	for name, tc := range map[string]struct {
		args []string
		code int
		says string
	}{
		"port in use":                {[]string{"server", "--data-dir", t.TempDir(), "--listen", taken.Addr().String(), "--metrics-listen", "127.0.0.1:0"}, 1, taken.Addr().String()},
		"unwritable data directory":  {[]string{"server", "--data-dir", filepath.Join(file, "below"), "--listen", "127.0.0.1:0"}, 1, filepath.Join(file, "below")},
		"unknown flag":               {[]string{"server", "--lisen", "127.0.0.1:0"}, 2, "--lisen"},
		"unknown command":            {[]string{"sever"}, 2, "sever"},
		"leaf lifetime out of range": {[]string{"server", "--data-dir", t.TempDir(), "--leaf-lifetime", "1s"}, 2, "60s"},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, stderr := run(t, tc.args...)
			assert.Equal(t, tc.code, code, stderr)
			assert.Contains(t, stderr, tc.says)
			assert.NotContains(t, stderr, "goroutine ")
		})
	}
}

// TestSecondServer: one directory, one server. The second one says so and ends,
// the first one goes on.
func TestSecondServer(t *testing.T) {
	first := testbed.StartServer(t)

	code, _, stderr := run(t, "server", "--data-dir", first.DataDir, "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0")
	assert.Equal(t, 1, code)
	assert.Contains(t, stderr, first.DataDir)
	assert.Contains(t, strings.ToLower(stderr), "in use")
	first.Stop()
	assert.NoError(t, first.Err())
}
