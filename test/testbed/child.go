// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/internal/process"
)

// tailLines is how much of a log a failed test shows.
const tailLines = 40

// child is a process that can be started again.
type child struct {
	*process.Process // the running one, or the last that ran

	t       testing.TB
	name    string
	dir     string
	program string
	env     []string
	args    []string
	ready   func(context.Context) error
}

// Launch runs the process, after Stop, Kill or its own end on what it has on disk,
// and does not wait for it.
func (c *child) Launch() {
	c.t.Helper()
	first := c.Process == nil
	p, err := process.Start(c.dir, c.name, c.env, c.program, c.args...)
	require.NoError(c.t, err)
	c.Process = p
	if first {
		c.t.Cleanup(func() {
			c.Kill()
			if c.t.Failed() {
				c.t.Logf("the end of the log of %s:\n%s", c.Name, c.Tail(tailLines))
			}
		})
	}
}

// WaitReady waits until the process does its work; it fails the test when the
// process ends instead.
func (c *child) WaitReady() {
	c.t.Helper()
	Eventually(c.t, c.Name+" to be ready", c.ready, c.Process)
}

// Start is Launch, and waits until the process is ready.
func (c *child) Start() {
	c.t.Helper()
	c.Launch()
	c.WaitReady()
}

// Stop asks the process to end (SIGTERM), as a service manager does, and waits until
// it has. It fails the test when that takes five minutes: unlike the product's own
// children, a process here is never killed because the machine is slow.
func (c *child) Stop() {
	c.t.Helper()
	_ = c.Signal(syscall.SIGTERM) // fails only when it has ended
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-c.Done():
	case <-timer.C:
		require.Fail(c.t, c.Name+" does not end")
	}
}

// Restart stops the process and starts it again.
func (c *child) Restart() {
	c.t.Helper()
	c.Stop()
	c.Start()
}

// Pause stops the process in its tracks (SIGSTOP), as a sleeping machine would.
func (c *child) Pause() {
	c.t.Helper()
	require.NoError(c.t, c.Signal(syscall.SIGSTOP))
}

// Resume lets it go on (SIGCONT).
func (c *child) Resume() {
	c.t.Helper()
	require.NoError(c.t, c.Signal(syscall.SIGCONT))
}

// Logged returns the lines of the log that contain all of the words, those of
// earlier runs included.
func (c *child) Logged(words ...string) []string {
	c.t.Helper()
	text, err := os.ReadFile(c.Log)
	require.NoError(c.t, err)
	return matching(string(text), words)
}

// WaitLog waits for a line of this run's log that contains all of the words, and
// returns the first.
func (c *child) WaitLog(words ...string) string {
	c.t.Helper()
	var line string
	Eventually(c.t, fmt.Sprintf("%q in the log of %s", words, c.Name), func(context.Context) error {
		text, err := c.Output()
		if err != nil {
			return err
		}
		lines := matching(text, words)
		if len(lines) == 0 {
			return fmt.Errorf("not there; the end of the log:\n%s", c.Tail(tailLines))
		}
		line = lines[0]
		return nil
	}, c.Process)
	return line
}

func matching(text string, words []string) []string {
	var found []string
next:
	for line := range strings.Lines(text) {
		for _, word := range words {
			if !strings.Contains(line, word) {
				continue next
			}
		}
		found = append(found, strings.TrimSuffix(line, "\n"))
	}
	return found
}
