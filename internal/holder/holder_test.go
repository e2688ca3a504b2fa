// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package holder

import (
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ikhnos/continuum/internal/certfile"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/controlclient"
	"github.com/ikhnos/continuum/internal/testpki"
	"github.com/ikhnos/continuum/internal/testpki/testserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newClient(t testing.TB, s *testserver.Server) *controlclient.Client {
	t.Helper()
	transport, err := controlclient.PinnedTransport([]string{s.Pin}, nil)
	require.NoError(t, err)
	client, err := controlclient.New(&http.Client{Transport: transport, Timeout: time.Minute}, s.URL, time.Now)
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	return client
}

// settings of a holder at a new directory, with a token for role.
func settings(t testing.TB, s *testserver.Server, role string) Settings {
	token := s.Token(role)
	return Settings{
		Directory: filepath.Join(t.TempDir(), "certs"),
		Server:    newClient(t, s),
		Token:     func() (string, error) { return token + "\n", nil },
		Now:       time.Now,
		Random:    func() float64 { return 0 },
	}
}

func requireFailure(t testing.TB, err error, outcome Outcome, reason string) *Failure {
	t.Helper()
	var failure *Failure
	require.ErrorAs(t, err, &failure)
	require.Equal(t, outcome, failure.Outcome, failure.Error())
	require.Equal(t, reason, failure.Reason)
	return failure
}

// RN-5: the key is made here; the first certificate comes by token, the next by
// possession of the one before.
func TestEnrollAndRenew(t *testing.T) {
	for _, role := range []string{"", "c1"} {
		server := testserver.New(t)
		set := settings(t, server, role)
		h := New(set)
		require.NoError(t, h.Load(t.Context()))
		require.False(t, h.Usable())
		require.Zero(t, h.Life())
		require.Zero(t, h.UntilDue())

		result, err := h.Attempt(t.Context())
		require.NoError(t, err)
		require.Equal(t, Result{OperationEnroll, OutcomeIssued}, result)
		require.True(t, h.Usable())
		require.InDelta(t, 10*24*time.Hour, h.UntilDue(), float64(time.Minute))
		require.Equal(t, testpki.LeafLife, h.Life())
		first := h.Status()
		require.Equal(t, controlapi.CertificateUsable, first.State)

		result, err = h.Attempt(t.Context())
		require.NoError(t, err)
		require.Equal(t, Result{OperationRenew, OutcomeIssued}, result)
		require.NotEqual(t, first.Serial, h.Status().Serial)
		require.Equal(t, first.Name, h.Status().Name)
		require.Equal(t, first.CA, h.Status().CA)
		entries := server.Entries()
		require.Len(t, entries, 2)
		require.True(t, entries[0].Leaf.Equal(entries[1].Parent))
		require.NoFileExists(t, filepath.Join(set.Directory, certfile.FilePending))

		again := New(set)
		require.NoError(t, again.Load(t.Context()))
		require.Equal(t, h.Status(), again.Status(), "renewAfter and all survive a restart")
	}
}

// trap-3: the answer is lost a hundred times after the server committed, with a
// restart in between: one key, one entry, one identity; the token is not burnt.
func TestLostAnswers(t *testing.T) {
	server := testserver.New(t)
	set := settings(t, server, "c1")
	h := New(set)
	for _, op := range []Operation{OperationEnroll, OperationRenew} {
		var lost atomic.Int32
		server.Edit(func(*controlapi.Certificate) {
			if lost.Add(1) <= 100 {
				panic(http.ErrAbortHandler)
			}
		})
		before := len(server.Entries())
		for range 100 {
			_, err := h.Attempt(t.Context())
			requireFailure(t, err, OutcomeUnreachable, ReasonServerUnreachable)
			h = New(set) // a crash
			require.NoError(t, h.Load(t.Context()))
		}
		result, err := h.Attempt(t.Context())
		require.NoError(t, err)
		require.Equal(t, Result{op, OutcomeIssued}, result)
		require.Len(t, server.Entries(), before+1)
	}
}

// A crash between publishing and forgetting the pending key: that key is in use
// and is never asked with again.
func TestPendingKeyThatIsInUse(t *testing.T) {
	server := testserver.New(t)
	set := settings(t, server, "c1")
	h := New(set)
	_, err := h.Attempt(t.Context())
	require.NoError(t, err)
	key, err := os.ReadFile(filepath.Join(set.Directory, certfile.FileKey))
	require.NoError(t, err)
	require.NoError(t, certfile.SavePending(set.Directory, key))
	_, err = h.Attempt(t.Context())
	require.NoError(t, err)

	require.NoError(t, certfile.SavePending(set.Directory, []byte("half a key")))
	_, err = h.Attempt(t.Context())
	require.NoError(t, err)
	require.Len(t, server.Entries(), 3)
}

// What was received is checked before anything is replaced.
func TestAnswersThatAreRejected(t *testing.T) {
	other := testpki.NewCA(t, "op-abc")
	elsewhere := func(edit func(*controlapi.Certificate, *testpki.Leaf)) func(*controlapi.Certificate) {
		return func(c *controlapi.Certificate) { edit(c, other.Sender(t, controlapi.KindCluster, "c1")) }
	}
	for name, tc := range map[string]struct {
		edit       func(*controlapi.Certificate)
		reason     string
		onlyEnroll bool
	}{
		"another CA": {edit: func(c *controlapi.Certificate) { c.CA = string(other.PEM) }, reason: ReasonLeafRejected},
		"certificate and CA of somebody else": {edit: elsewhere(func(c *controlapi.Certificate, l *testpki.Leaf) {
			c.Certificate, c.CA, c.Serial = string(l.CertPEM), string(other.PEM), serialOf(l.Cert)
		}), reason: ReasonLeafRejected},
		"two certificates": {edit: func(c *controlapi.Certificate) { c.Certificate += c.CA }, reason: ReasonLeafRejected},
		"no certificate":   {edit: func(c *controlapi.Certificate) { c.Certificate = "" }, reason: ReasonLeafRejected},
		"no CA":            {edit: func(c *controlapi.Certificate) { c.CA = "" }, reason: ReasonLeafRejected},
		"another serial":   {edit: func(c *controlapi.Certificate) { c.Serial = "0a" }, reason: ReasonLeafRejected},
		"another role":     {edit: func(c *controlapi.Certificate) { c.Role = controlapi.RoleReceiver }, reason: ReasonLeafRejected, onlyEnroll: true},
		"another name":     {edit: func(c *controlapi.Certificate) { c.Name = "op-abc-export-c2" }, reason: ReasonLeafRejected, onlyEnroll: true},
	} {
		t.Run(name, func(t *testing.T) {
			server := testserver.New(t)
			set := settings(t, server, "c1")
			h := New(set)
			server.Edit(tc.edit)
			_, err := h.Attempt(t.Context())
			require.True(t, requireFailure(t, err, OutcomeInvalid, tc.reason).Person)
			require.NoFileExists(t, filepath.Join(set.Directory, certfile.FileCertificate))
			if tc.onlyEnroll {
				return
			}
			server.Edit(nil)
			_, err = h.Attempt(t.Context())
			require.NoError(t, err)
			before := h.Status()
			server.Edit(tc.edit)
			_, err = h.Attempt(t.Context())
			requireFailure(t, err, OutcomeInvalid, tc.reason)
			require.Equal(t, before.Serial, h.Status().Serial)
			require.Equal(t, controlapi.CertificateRefused, h.Status().State)
			server.Edit(nil)
			_, err = h.Attempt(t.Context())
			require.NoError(t, err)
			require.Equal(t, controlapi.CertificateUsable, h.Status().State)
		})
	}
}

// The CA in an answer never silently changes.
func TestCAChanged(t *testing.T) {
	server := testserver.New(t)
	set := settings(t, server, "c1")
	h := New(set)
	_, err := h.Attempt(t.Context())
	require.NoError(t, err)
	serial := h.Status().Serial
	old := server.CA
	replaced := testpki.NewCA(t, "op-abc")
	server.Edit(func(c *controlapi.Certificate) {
		leaves, err := certfile.ParseCertificates([]byte(c.Certificate))
		require.NoError(t, err)
		leaf := replaced.Sender(t, controlapi.KindCluster, "c1", testpki.ForKey(leaves[0].PublicKey))
		c.Certificate, c.CA, c.Serial = string(leaf.CertPEM), string(replaced.PEM), serialOf(leaf.Cert)
	})
	_, err = h.Attempt(t.Context())
	requireFailure(t, err, OutcomeInvalid, ReasonCAChanged)
	require.Equal(t, serial, h.Status().Serial)

	// A token names its CA, too.
	fresh := New(settings(t, server, "c1"))
	_, err = fresh.Attempt(t.Context())
	requireFailure(t, err, OutcomeInvalid, ReasonCAChanged)
	require.False(t, fresh.Status().Present)

	// A bundle on disk that knows both lets the renewal pass, and stays as it is.
	bundle := append(append([]byte{}, old.PEM...), replaced.PEM...)
	g, err := certfile.Load(set.Directory)
	require.NoError(t, err)
	g.CA = bundle
	require.NoError(t, certfile.Publish(set.Directory, g))
	changed, err := h.Refresh(t.Context())
	require.NoError(t, err)
	require.True(t, changed)
	require.Nil(t, h.Status().Failure, "what somebody changed is tried anew")
	_, err = h.Attempt(t.Context())
	require.NoError(t, err)
	require.Equal(t, bundle, h.Status().CA)
}

// trap-2, case-11: off for longer than the certificate lives. The state is clear,
// a dead token is asked for once, and a new token is all that is needed.
func TestEndedCertificate(t *testing.T) {
	server := testserver.New(t)
	set := settings(t, server, "c1")
	spent := set.Token
	_, err := New(set).Attempt(t.Context())
	require.NoError(t, err)

	later := func() time.Time { return time.Now().Add(45 * 24 * time.Hour) }
	server.SetClock(later)
	set.Now = later
	set.Token = nil
	h := New(set)
	require.NoError(t, h.Load(t.Context()))
	require.False(t, h.Usable())
	require.Equal(t, controlapi.CertificateExpired, h.Status().State)
	_, err = h.Attempt(t.Context())
	require.Error(t, err)
	var failure *Failure
	require.ErrorAs(t, err, &failure)
	require.True(t, failure.Person)
	require.Contains(t, []string{string(controlapi.ReasonLeafEnded), string(controlapi.ReasonClockSkew)}, failure.Reason)

	h.set.Token = spent
	enrolments := func() int {
		n := 0
		for _, route := range server.Calls() {
			if route == controlapi.RouteEnroll {
				n++
			}
		}
		return n
	}
	before := enrolments()
	for range 5 {
		_, err = h.Attempt(t.Context())
		requireFailure(t, err, OutcomeRefused, string(controlapi.ReasonTokenSpent))
	}
	require.Equal(t, before, enrolments(), "the pair came by this token: to send it again would look like a theft")

	fresh := server.Token("c1")
	h.set.Token = func() (string, error) { return fresh, nil }
	result, err := h.Attempt(t.Context())
	require.NoError(t, err)
	require.Equal(t, Result{OperationEnroll, OutcomeIssued}, result)
	require.True(t, h.Usable())
}

func TestRevokedCertificateTakesANewToken(t *testing.T) {
	server := testserver.New(t)
	set := settings(t, server, "c1")
	h := New(set)
	_, err := h.Attempt(t.Context())
	require.NoError(t, err)
	server.RevokeAll()
	h.set.Token = nil
	_, err = h.Attempt(t.Context())
	requireFailure(t, err, OutcomeRefused, string(controlapi.ReasonLeafRevoked))
	require.Equal(t, controlapi.CertificateRefused, h.Status().State)
	fresh := server.Token("c1")
	h.set.Token = func() (string, error) { return fresh, nil }
	_, err = h.Attempt(t.Context())
	require.NoError(t, err)
}

func TestFailuresAreClassified(t *testing.T) {
	server := testserver.New(t)
	h := New(settings(t, server, "c1"))
	_, err := h.Attempt(t.Context())
	require.NoError(t, err)
	for reason, want := range map[controlapi.Reason]struct {
		outcome Outcome
		person  bool
		state   controlapi.CertificateState
	}{
		controlapi.ReasonUnavailable:        {OutcomeUnreachable, false, controlapi.CertificateUsable},
		controlapi.ReasonInternal:           {OutcomeUnreachable, false, controlapi.CertificateUsable},
		controlapi.ReasonRateLimited:        {OutcomeRefused, false, controlapi.CertificateRefused},
		controlapi.ReasonSenderHeld:         {OutcomeRefused, false, controlapi.CertificateRefused},
		controlapi.ReasonSenderRevoked:      {OutcomeRefused, true, controlapi.CertificateRefused},
		controlapi.ReasonClusterNotApproved: {OutcomeRefused, true, controlapi.CertificateRefused},
		controlapi.ReasonClockSkew:          {OutcomeClockSkew, false, controlapi.CertificateRefused},
	} {
		server.Refuse(func(string) *controlapi.Problem { return controlapi.NewProblem(reason, "") })
		_, err := h.Attempt(t.Context())
		require.Equal(t, want.person, requireFailure(t, err, want.outcome, string(reason)).Person, reason)
		require.Equal(t, want.state, h.Status().State, reason)
	}

	server.Refuse(nil)
	transport, err := controlclient.PinnedTransport([]string{"sha256:" + "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"}, nil)
	require.NoError(t, err)
	client, err := controlclient.New(&http.Client{Transport: transport}, server.URL, time.Now)
	require.NoError(t, err)
	h.set.Server = client
	_, err = h.Attempt(t.Context())
	require.True(t, requireFailure(t, err, OutcomeUnreachable, ReasonPinMismatch).Person)

	h.set.Server, h.set.Directory = newClient(t, server), "/proc/no-such-directory"
	h.store = dirStore{h.set.Directory}
	_, err = h.Attempt(t.Context())
	requireFailure(t, err, OutcomeWriteFailed, ReasonWriteFailed)

	nothing := New(Settings{Directory: t.TempDir(), Now: time.Now, Random: h.set.Random})
	_, err = nothing.Attempt(t.Context())
	requireFailure(t, err, OutcomeRefused, ReasonTokenMissing)
	nothing.set.Token = func() (string, error) { return "iktok_mistyped", nil }
	_, err = nothing.Attempt(t.Context())
	requireFailure(t, err, OutcomeRefused, ReasonTokenMissing)
	require.NotContains(t, err.Error(), "iktok_mistyped")
	nothing.set.Token = func() (string, error) { return "", os.ErrNotExist }
	_, err = nothing.Attempt(t.Context())
	require.ErrorIs(t, err, os.ErrNotExist)
}

// A pair that another program published meanwhile is taken up without a call.
func TestAdoptFromTheDirectory(t *testing.T) {
	server := testserver.New(t)
	set := settings(t, server, "c1")
	h := New(set)
	_, err := h.Attempt(t.Context())
	require.NoError(t, err)
	calls := len(server.Calls())
	newer := server.CA.Sender(t, controlapi.KindCluster, "c1", testpki.Between(time.Now(), time.Now().Add(time.Hour)))
	require.NoError(t, certfile.Publish(set.Directory, certfile.New(newer.CertPEM, newer.KeyPEM, server.CA.PEM)))
	result, err := h.Attempt(t.Context())
	require.NoError(t, err)
	require.Equal(t, Result{OperationRenew, OutcomeAdopted}, result)
	require.Equal(t, serialOf(newer.Cert), h.Status().Serial)
	require.Len(t, server.Calls(), calls)
}

func TestOverdue(t *testing.T) {
	server := testserver.New(t)
	set := settings(t, server, "c1")
	h := New(set)
	_, err := h.Attempt(t.Context())
	require.NoError(t, err)
	h.set.Now = func() time.Time { return time.Now().Add(13 * 24 * time.Hour) }
	require.Equal(t, controlapi.CertificateOverdue, h.Status().State)
}
