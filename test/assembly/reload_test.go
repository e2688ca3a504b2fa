// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package assembly

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/test/testbed"
)

// TestReloads is case-7: a collector process loads its configuration again and again,
// TLS blocks, policy and certificates with it, and has as many descriptors open
// afterwards as before. With CONTINUUM_SOAK it does so a hundred times.
func TestReloads(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	reloads := 10
	if testbed.Soak() {
		reloads = 100
	}
	server := testbed.StartServer(t)
	server.Central("op-abc")
	dir := testbed.Dir(t)
	server.TokenFile(filepath.Join(dir, "token"), "op-abc", "")
	c := testbed.StartCollector(t, testbed.CollectorSpec{Name: "reloaded", Dir: dir, Config: []string{
		strings.NewReplacer("OPERATOR", "op-abc", "SERVER", server.URL, "PIN", server.Pin,
			"DIR", dir, "LISTEN", testbed.Address(t)).Replace(receiverConfig),
	}})
	reload := func(starts int) {
		require.NoError(t, c.Signal(syscall.SIGHUP))
		testbed.Eventually(t, "the pipelines to run again", func(context.Context) error {
			if ready := len(c.Logged("Everything is ready")); ready < starts {
				return fmt.Errorf("%d starts", ready)
			}
			return nil
		}, c.Process)
	}
	open := func() int {
		n, err := c.OpenFiles()
		require.NoError(t, err)
		return n
	}
	reload(2) // what is made once for a process
	before := open()
	for i := range reloads {
		reload(3 + i)
	}
	testbed.Eventually(t, "descriptors to be as before", func(context.Context) error {
		if n := open(); n > before+4 {
			return fmt.Errorf("%d are open, %d were", n, before)
		}
		return nil
	}, c.Process)
}
