// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/internal/process"
)

// patience bounds every wait of this package that has no limit of its own. It is
// far above what an idle machine needs.
const patience = 5 * time.Minute

// Soak reports whether CONTINUUM_SOAK asks for the full count of long proofs.
func Soak() bool { return os.Getenv("CONTINUUM_SOAK") != "" }

// Root is the folder of this checkout.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	require.NoError(t, err)
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		require.NotEqual(t, dir, parent, "no go.mod above the test")
		dir = parent
	}
}

// Program returns the path of a program that `make build` made: ikhnos or
// continuum-collector.
func Program(t testing.TB, name string) string {
	t.Helper()
	dir := os.Getenv("CONTINUUM_BIN")
	if dir == "" {
		dir = filepath.Join(Root(t), "bin")
	}
	path, err := filepath.Abs(filepath.Join(dir, name))
	require.NoError(t, err)
	require.FileExists(t, path, "run `make build` first")
	return path
}

// Tool returns the path of a program that scripts/tool builds once and keeps.
func Tool(t testing.TB, name string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(Root(t), "scripts", "tool"), name)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	require.NoError(t, err, "scripts/tool %s: %s", name, &said)
	return strings.TrimSpace(string(out))
}

// StartTool starts a program of [Tool], with its log in dir. It ends with the test.
func StartTool(t testing.TB, dir, name string, args ...string) *process.Process {
	t.Helper()
	p := &child{t: t, name: name, dir: dir, program: Tool(t, name), args: args}
	p.Launch()
	return p.Process
}

// Dir is an empty folder with a space in its path, 0700, removed with the test.
func Dir(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "a folder")
	require.NoError(t, os.Mkdir(dir, 0o700))
	return dir
}

// Context ends with the test or after limit.
func Context(t testing.TB, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

var ports struct {
	sync.Mutex
	given map[int]bool
}

// Port returns a loopback port that is free now and that this process gives out
// once. It is below those that the kernel gives to outgoing connections, so that a
// process which is down finds it free when it comes back.
func Port(t testing.TB) int {
	t.Helper()
	ports.Lock()
	defer ports.Unlock()
	if ports.given == nil {
		ports.given = map[int]bool{}
	}
	for range 1000 {
		port := 10000 + rand.IntN(14000)
		if ports.given[port] {
			continue
		}
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		require.NoError(t, listener.Close())
		ports.given[port] = true
		return port
	}
	t.Fatal("no free port on 127.0.0.1")
	return 0
}

// Address is a loopback address with a port of [Port].
func Address(t testing.TB) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", Port(t))
}

// Eventually waits until ready returns nil. It fails the test with ready's last
// error after five minutes, and at once when one of procs has ended.
func Eventually(t testing.TB, what string, ready func(context.Context) error, procs ...*process.Process) {
	t.Helper()
	Within(t, patience, what, ready, procs...)
}

// Within is [Eventually] with a limit, for what takes long by nature.
func Within(t testing.TB, limit time.Duration, what string, ready func(context.Context) error, procs ...*process.Process) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	require.NoError(t, process.Poll(ctx, what, procs, ready))
}
