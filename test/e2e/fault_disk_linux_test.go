// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/cli/apiclient"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/controlclient"
)

// smallDisk mounts a disk of its own of 8 MiB.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := spacedDir(t)
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

func (k *killServer) probe(t *testing.T, path string) int {
	t.Helper()
	transport, err := controlclient.PinnedTransport([]string{k.pin}, &tls.Config{MinVersion: tls.VersionTLS13})
	require.NoError(t, err)
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Get(k.url + path)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode
}

// TestDiskFull: case-17: when the disk of a SQLite server is full, requests are
// answered that trying again can help, /readyz says so, nothing that was answered
// is lost, and everything goes on when there is room again.
func TestDiskFull(t *testing.T) {
	s := &killSite{
		t: t, program: program(t, "ikhnos"), dir: filepath.Join(smallDisk(t), "data"),
		issued: map[string]controlclient.Holder{}, revoked: map[string]bool{}, cut: map[string]bool{},
	}
	ctx := testContext(t, 10*time.Minute)
	k := s.start()
	_, err := k.admin.CreateOperator(ctx, operators.OperatorRequest{ID: killOperator, Name: "Full", Role: operators.RoleCentral})
	require.NoError(t, err)
	token, err := k.admin.CreateToken(ctx, killOperator, controlapi.RoleReceiver, "", 0)
	require.NoError(t, err)
	key, csr := newRequest(t)
	serial, err := s.enroll(ctx, k, attempt{token.Token, key, csr})
	require.NoError(t, err)
	s.receiver = s.issued[serial]

	free := fill(t, s.dir)
	var refusal error
	for i := 0; refusal == nil; i++ { // what the log has room for is still taken
		require.Less(t, i, 100_000)
		_, refusal = s.renew(ctx, k, serial)
		if isReason(refusal, controlapi.ReasonTooManyCertificates) {
			_, refusal = k.admin.CreateCluster(ctx, operators.ClusterRequest{ID: fmt.Sprint("c", i)})
			s.clusters++
		}
	}
	require.True(t, isReason(refusal, controlapi.ReasonUnavailable), "%v", refusal)
	require.Eventually(t, func() bool { return k.probe(t, "/readyz") == http.StatusServiceUnavailable }, time.Minute, 100*time.Millisecond)
	assert.Equal(t, http.StatusOK, k.probe(t, "/healthz"))
	_, err = k.admin.RevokeCertificate(ctx, killOperator, serial, "", 0)
	require.True(t, isReason(err, controlapi.ReasonUnavailable), "%v", err)

	free()
	require.Eventually(t, func() bool { return k.probe(t, "/readyz") == http.StatusOK }, time.Minute, 100*time.Millisecond)
	s.everythingIsThere(ctx, k)
	for range 2 { // once with the room that is back, once after a crash
		_, err = k.admin.CreateCluster(ctx, operators.ClusterRequest{ID: fmt.Sprint("after", s.clusters)})
		require.NoError(t, err)
		s.clusters++
		k.kill(t)
		code, out := s.command("ledger", "verify", "--data-dir", s.dir)
		require.Zero(t, code, out)
		k = s.start()
		s.everythingIsThere(ctx, k)
	}
	k.stop(t)
}

// everythingIsThere compares what was answered with what the server lists.
func (s *killSite) everythingIsThere(ctx context.Context, k *killServer) {
	s.t.Helper()
	entries, err := k.admin.Certificates(ctx, apiclient.CertificateFilter{Operator: killOperator})
	require.NoError(s.t, err)
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
