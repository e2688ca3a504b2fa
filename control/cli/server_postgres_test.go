// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/cli/apiclient"
	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/controlclient"
	"github.com/ikhnos/continuum/internal/holderproof"
)

// ownPostgres is a PostgreSQL for one test, which may stop it.
type ownPostgres struct {
	t   *testing.T
	dir string
	url string
}

func newOwnPostgres(t *testing.T) *ownPostgres {
	t.Helper()
	if os.Getenv("CONTINUUM_TEST_POSTGRES") == "" {
		t.Skip("CONTINUUM_TEST_POSTGRES is not set: there may be no PostgreSQL here")
	}
	// Not t.TempDir, whose parent is closed to the user that PostgreSQL runs as.
	dir, err := os.MkdirTemp("", "continuum-pg")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(dir)) })
	p := &ownPostgres{t: t, dir: dir}
	p.start()
	t.Cleanup(func() { _ = p.run("stop").Run() }) // it may be down
	return p
}

func (p *ownPostgres) run(what string) *exec.Cmd {
	return exec.Command(filepath.Join("..", "..", "scripts", "postgres"), what, p.dir)
}

func (p *ownPostgres) start() {
	p.t.Helper()
	out, err := p.run("start").Output()
	require.NoError(p.t, err)
	p.url = strings.TrimSpace(string(out))
}

// stop ends it at once, as a crash does.
func (p *ownPostgres) stop() {
	p.t.Helper()
	out, err := p.run("stop").CombinedOutput()
	require.NoError(p.t, err, "%s", out)
}

// newPostgresSite is a server on a PostgreSQL, with op-eu and its receiver.
func newPostgresSite(t *testing.T, url string) (*site, leafHolder) {
	t.Helper()
	s := &site{machine: newMachine(t, nil)}
	s.env.now = s.now
	dir := filepath.Join(t.TempDir(), "new") // the server makes it
	s.start(dir, func(c *serverConfig) { c.databaseURL = url })
	s.env.vars["IKHNOS_TOKEN"] = strings.TrimSpace(s.ok("admin-token", "show-initial", "--data-dir", dir))
	printed := s.exec(exitDone, "operator", "create", "EU", "--id", "op-eu", "--role", "central").stdout
	receiver, err := s.enroll(enrollmentToken.FindString(printed))
	require.NoError(t, err)
	return s, receiver
}

func requireUnavailable(t *testing.T, err error) {
	t.Helper()
	var p *controlapi.Problem
	require.ErrorAs(t, err, &p)
	require.Equal(t, controlapi.ReasonUnavailable, p.Reason, "%v", err)
	require.Equal(t, http.StatusServiceUnavailable, p.Status)
	require.True(t, p.Retryable)
}

// probe is the status of a probe.
func (s *site) probe(path string) int {
	s.t.Helper()
	transport, err := controlclient.PinnedTransport([]string{s.serving.pin}, nil)
	require.NoError(s.t, err)
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Get(s.serving.url + path)
	require.NoError(s.t, err)
	require.NoError(s.t, resp.Body.Close())
	return resp.StatusCode
}

// waiting starts a long poll that goes on until there is a policy or an error, and
// returns once the server holds it.
func (s *site) waiting(receiver leafHolder, etag string) <-chan any {
	s.t.Helper()
	proofs := func() (n int) {
		require.NoError(s.t, s.serving.store.View(s.t.Context(), func(tx *ledger.Tx) error {
			return tx.QueryRow(`SELECT COUNT(*) FROM used_proofs`).Scan(&n)
		}))
		return n
	}
	before, done := proofs(), make(chan any, 1)
	go func() {
		for {
			answer, err := s.client.Policy(s.t.Context(), receiver.Holder, etag, time.Minute)
			switch {
			case err != nil:
				done <- err
				return
			case !answer.NotModified:
				done <- answer.JWS
				return
			}
		}
	}()
	require.Eventually(s.t, func() bool { return proofs() > before }, time.Minute, 5*time.Millisecond)
	s.run("status") // the poll has what it wanted of the database long before this has
	return done
}

// TestDatabaseGoneAndBack: while PostgreSQL is away requests are answered that
// trying again can help; when it is back everything goes on, the polls that waited
// included, and nothing was lost.
func TestDatabaseGoneAndBack(t *testing.T) {
	database := newOwnPostgres(t)
	s, receiver := newPostgresSite(t, database.url)
	first := s.connected("c1")
	s.exec(exitDone, "cluster", "add", "c2", "--approve")
	open := enrollmentToken.FindString(s.exec(exitDone, "sender", "connect", "c2", "--operator", "op-eu").stdout)
	before, etag, err := s.policy(receiver, "")
	require.NoError(t, err)
	poll := s.waiting(receiver, etag)
	require.Equal(t, http.StatusOK, s.probe("/readyz"))

	database.stop()
	for range 3 {
		_, err := s.enroll(open)
		requireUnavailable(t, err)
		_, err = s.renew(first)
		requireUnavailable(t, err)
		assert.Equal(t, http.StatusServiceUnavailable, s.probe("/readyz"))
		assert.Equal(t, http.StatusOK, s.probe("/healthz"))
	}
	assert.NotEqual(t, exitDone, s.run("cluster", "list").code)

	database.start()
	require.Eventually(t, func() bool { return s.probe("/readyz") == http.StatusOK }, 2*time.Minute, 50*time.Millisecond)
	second, err := s.enroll(open)
	require.NoError(t, err, "the token was not spent")
	s.renewed(first)
	s.renewed(second)
	s.exec(exitNotConfirmed, "sender", "revoke", "c1", "--operator", "op-eu", "--wait", "0s")
	require.IsType(t, "", <-poll, "the poll was answered")
	now, _, err := s.policy(receiver, etag)
	require.NoError(t, err)
	assert.True(t, before.Less(now.Version))
	s.refused(controlapi.ReasonLeafRevoked, first)
	s.exec(exitDone, "ledger", "head", "op-eu")
	_, err = s.serving.store.Verify(t.Context(), "op-eu")
	require.NoError(t, err)
}

// replicas are two servers on one database.
func replicas(t *testing.T) (a, b *site, receiver leafHolder, api [2]*apiclient.Client) {
	t.Helper()
	if os.Getenv("CONTINUUM_TEST_POSTGRES") == "" {
		t.Skip("CONTINUUM_TEST_POSTGRES holds no URL of a PostgreSQL whose user may create databases")
	}
	url := freshDatabase(t, os.Getenv("CONTINUUM_TEST_POSTGRES"), "clitest_replicas")
	a, receiver = newPostgresSite(t, url)
	b = &site{machine: a.machine}
	b.start(t.TempDir(), func(c *serverConfig) { c.databaseURL = url })
	require.Equal(t, a.serving.pin, b.serving.pin)
	for i, s := range []*site{a, b} {
		var err error
		api[i], err = apiclient.New(apiclient.Config{Server: s.serving.adminURL, Token: a.env.vars["IKHNOS_TOKEN"], CAPins: []string{s.serving.pin}, Timeout: time.Minute})
		require.NoError(t, err)
		t.Cleanup(api[i].CloseIdleConnections)
	}
	return a, b, receiver, api
}

// both runs two things at the same time.
func both(first, second func()) {
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for _, do := range []func(){first, second} {
		wg.Go(func() {
			<-begin
			do()
		})
	}
	close(begin)
	wg.Wait()
}

func reasonOf(err error) controlapi.Reason {
	var p *controlapi.Problem
	if errors.As(err, &p) {
		return p.Reason
	}
	return ""
}

// TestReplicasRaceOneToken: a token gives one leaf to one key, whichever server it
// is brought to; the same key at both gets the same certificate.
func TestReplicasRaceOneToken(t *testing.T) {
	a, b, _, _ := replicas(t)
	for range 15 {
		token := enrollmentToken.FindString(a.exec(exitDone, "token", "create", "--operator", "op-eu", "--role", "receiver").stdout)
		_, one := request(t)
		_, two := request(t)
		var err1, err2 error
		both(func() { _, err1 = a.client.Enroll(t.Context(), token, one) }, func() { _, err2 = b.client.Enroll(t.Context(), token, two) })
		reasons := []controlapi.Reason{reasonOf(err1), reasonOf(err2)}
		slices.Sort(reasons)
		require.Equal(t, []controlapi.Reason{"", controlapi.ReasonTokenSpent}, reasons, "%v, %v", err1, err2)

		token = enrollmentToken.FindString(a.exec(exitDone, "token", "create", "--operator", "op-eu", "--role", "receiver").stdout)
		_, same := request(t)
		var got1, got2 *controlapi.Certificate
		both(func() { got1, err1 = a.client.Enroll(t.Context(), token, same) }, func() { got2, err2 = b.client.Enroll(t.Context(), token, same) })
		require.NoError(t, err1)
		require.NoError(t, err2)
		require.Equal(t, got1, got2)
	}
	_, err := a.serving.store.Verify(t.Context(), "op-eu")
	require.NoError(t, err)
}

// TestReplicasRaceOneProof: a jti is good once across replicas.
func TestReplicasRaceOneProof(t *testing.T) {
	a, b, receiver, _ := replicas(t)
	transport, err := controlclient.PinnedTransport([]string{a.serving.pin}, nil)
	require.NoError(t, err)
	defer transport.CloseIdleConnections()
	for range 15 {
		proof, err := holderproof.Sign(receiver.Key, receiver.Leaf, holderproof.Request{Method: http.MethodGet, Route: controlapi.RoutePolicy}, a.now())
		require.NoError(t, err)
		ask := func(s *site, status *int) func() {
			return func() {
				req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, s.serving.url+controlapi.RoutePolicy, http.NoBody)
				assert.NoError(t, err)
				req.Header.Set("Authorization", holderproof.Scheme+" "+proof)
				resp, err := transport.RoundTrip(req)
				if assert.NoError(t, err) {
					*status = resp.StatusCode
					assert.NoError(t, resp.Body.Close())
				}
			}
		}
		var one, two int
		both(ask(a, &one), ask(b, &two))
		require.Equal(t, http.StatusOK+http.StatusUnauthorized, one+two, "%d and %d", one, two)
	}
}

// TestReplicasRaceRevokeAgainstRenew: whichever is first, after both are answered
// no leaf of the sender is good any more, at either server.
func TestReplicasRaceRevokeAgainstRenew(t *testing.T) {
	a, b, receiver, api := replicas(t)
	renewals := 0
	for _, cluster := range strings.Fields("c1 c2 c3 c4 c5 c6 c7 c8 c9 c10 c11 c12") {
		h := a.connected(cluster)
		leaves := []leafHolder{h}
		key, csr := request(t)
		both(func() {
			_, err := api[1].RevokeSender(t.Context(), "op-eu", cluster, operators.RevokeCompromised, "", 0)
			assert.NoError(t, err)
		}, func() {
			issued, err := a.client.Renew(t.Context(), h.Holder, csr)
			if err == nil {
				leaves = append(leaves, holding(key, issued))
				renewals++
			} else {
				assert.Equal(t, controlapi.ReasonLeafRevoked, reasonOf(err), "%v", err)
			}
		})
		policy, _, err := b.policy(receiver, "")
		require.NoError(t, err)
		for _, leaf := range leaves {
			require.Contains(t, policy.RevokedSerials, leaf.serial)
			a.refused(controlapi.ReasonLeafRevoked, leaf)
			b.refused(controlapi.ReasonLeafRevoked, leaf)
		}
		require.Equal(t, controlapi.SenderRevoked, states(policy)[cluster])
	}
	t.Logf("%d of 12 renewals came first", renewals)
}
