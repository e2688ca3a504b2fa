// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/controlclient"
	"github.com/ikhnos/continuum/test/testbed"
)

// smallDisk mounts a disk of its own of 8 MiB.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := testbed.Dir(t)
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=8m"); err != nil {
		t.Skipf("a small disk cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { assert.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return dir
}

// fill takes what is left of a disk, and returns how to give it back.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "ballast")
	file, err := os.Create(path)
	require.NoError(t, err)
	for size := 1 << 16; size > 0; size /= 2 {
		for err = nil; err == nil; {
			_, err = file.Write(make([]byte, size))
		}
		require.ErrorIs(t, err, syscall.ENOSPC)
	}
	require.NoError(t, file.Close())
	return func() { require.NoError(t, os.Remove(path)) }
}

// probe is nil when one of the server's probes answers with a status.
func (s *killSite) probe(ctx context.Context, path string, want int) error {
	transport, err := controlclient.PinnedTransport([]string{s.Pin}, nil)
	if err != nil {
		return err
	}
	code, _, err := testbed.Get(ctx, transport, s.URL+path)
	if err == nil && code != want {
		err = fmt.Errorf("%s answers %d", path, code)
	}
	return err
}

// awaitReadiness waits until /readyz answers with a status.
func (s *killSite) awaitReadiness(want int) {
	s.t.Helper()
	testbed.Eventually(s.t, "readiness", func(ctx context.Context) error { return s.probe(ctx, "/readyz", want) }, s.Process)
}

// TestDiskFull: case-17: when the disk of a SQLite server is full, requests are
// answered that trying again can help, /readyz says so, nothing that was answered
// is lost, and everything goes on when there is room again.
func TestDiskFull(t *testing.T) {
	s := newKillSite(t, filepath.Join(smallDisk(t), "data"))
	ctx := testbed.Context(t, 10*time.Minute)
	serial := s.receiver.Serial

	free := fill(t, s.DataDir)
	var refusal error
	for i := 0; refusal == nil; i++ { // what the log has room for is still taken
		require.Less(t, i, 100_000)
		_, refusal = s.renew(ctx, serial)
		if isReason(refusal, controlapi.ReasonTooManyCertificates) {
			_, refusal = s.API.CreateCluster(ctx, operators.ClusterRequest{ID: fmt.Sprint("c", i)})
			s.clusters++
		}
	}
	require.True(t, isReason(refusal, controlapi.ReasonUnavailable), "%v", refusal)
	s.awaitReadiness(http.StatusServiceUnavailable)
	require.NoError(t, s.probe(ctx, "/healthz", http.StatusOK))
	_, err := s.API.RevokeCertificate(ctx, killOperator, serial, "", 0)
	require.True(t, isReason(err, controlapi.ReasonUnavailable), "%v", err)

	free()
	s.awaitReadiness(http.StatusOK)
	s.everythingIsThere()
	for range 2 { // once with the room that is back, once after a crash
		_, err = s.API.CreateCluster(ctx, operators.ClusterRequest{ID: fmt.Sprint("after", s.clusters)})
		require.NoError(t, err)
		s.clusters++
		s.crash()
		s.Start()
		s.everythingIsThere()
	}
	s.Stop()
	require.NoError(t, s.Err())
}

// everythingIsThere compares what was answered with what the server lists.
func (s *killSite) everythingIsThere() {
	s.t.Helper()
	entries := s.Entries(killOperator, "")
	known := map[string]bool{}
	for _, e := range entries {
		known[e.Serial] = true
	}
	for serial := range s.issued {
		assert.True(s.t, known[serial], "certificate %s was issued and is not in the ledger", serial)
	}
	assert.Len(s.t, entries, len(s.issued), "nothing is there that was refused")
}

func isReason(err error, reason controlapi.Reason) bool {
	var p *controlapi.Problem
	return errors.As(err, &p) && p.Reason == reason
}
