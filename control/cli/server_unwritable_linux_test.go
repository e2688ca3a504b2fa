// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"net/http"
	"os/signal"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/internal/controlapi"
)

// takeNoWrites lets every write of this process to a file fail, as on a disk that
// is full, until it is called off.
func takeNoWrites(t *testing.T) (off func()) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ) // the write fails instead
	var before syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before))
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Max: before.Max}))
	off = sync.OnceFunc(func() {
		assert.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before))
		signal.Reset(syscall.SIGXFSZ)
	})
	t.Cleanup(off)
	return off
}

// TestDatabaseThatTakesNoWrites: requests that need one are answered that trying
// again can help, what is known is still told, /readyz says so, and nothing was
// lost or half done.
func TestDatabaseThatTakesNoWrites(t *testing.T) {
	s, receiver, senders := newFleet(t, t.TempDir())
	s.exec(exitDone, "cluster", "add", "c4", "--approve")
	open := enrollmentToken.FindString(s.exec(exitDone, "sender", "connect", "c4", "--operator", "op-eu").stdout)
	_, etag, err := s.policy(receiver, "")
	require.NoError(t, err)
	poll := s.waiting(receiver, etag)
	certificates := s.exec(exitDone, "cert", "list", "--operator", "op-eu").stdout

	writable := takeNoWrites(t)
	s.wait(time.Minute) // longer than an answer of /readyz holds
	_, err = s.enroll(open)
	requireUnavailable(t, err)
	_, err = s.renew(senders["c1"])
	requireUnavailable(t, err)
	_, _, err = s.policy(receiver, "") // its proof could be used twice
	requireUnavailable(t, err)
	assert.Equal(t, exitRefused, s.run("sender", "revoke", "c2", "--operator", "op-eu", "--wait", "0s").code)
	assert.Equal(t, http.StatusServiceUnavailable, s.probe("/readyz"))
	assert.Equal(t, http.StatusOK, s.probe("/healthz"))
	assert.Equal(t, http.StatusOK, s.probe(controlapi.RouteCRL("op-eu")))
	assert.Equal(t, certificates, s.exec(exitDone, "cert", "list", "--operator", "op-eu").stdout)

	writable()
	require.Eventually(t, func() bool { return s.probe("/readyz") == http.StatusOK }, time.Minute, 50*time.Millisecond)
	fourth, err := s.enroll(open)
	require.NoError(t, err, "the token was not spent")
	s.renewed(senders["c2"])
	s.exec(exitNotConfirmed, "sender", "revoke", "c4", "--operator", "op-eu", "--wait", "0s")
	require.IsType(t, "", <-poll, "the poll was answered")
	s.refused(controlapi.ReasonLeafRevoked, fourth)
	_, err = s.serving.store.Verify(t.Context(), "op-eu")
	require.NoError(t, err)
}
