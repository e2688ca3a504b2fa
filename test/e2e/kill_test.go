// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/ecdsa"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/controlclient"
	"github.com/ikhnos/continuum/test/testbed"
)

// kills is how many times the server is killed: CONTINUUM_KILLS, or ten.
func kills(t *testing.T) int {
	t.Helper()
	text := os.Getenv("CONTINUUM_KILLS")
	if text == "" {
		return 10
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

const killOperator = "op-kill"

// killSite is a server that is killed and started again on one directory, and all
// that the world outside was told.
type killSite struct {
	*testbed.Server
	t        *testing.T
	holder   *controlclient.Client // of the machine paths
	receiver *testbed.Leaf
	clusters int // names that were used

	mu      sync.Mutex
	issued  map[string]controlclient.Holder // certificates that were answered, by serial
	revoked map[string]bool                 // serials of leaves whose revocation was answered
	cut     map[string]bool                 // clusters whose cut-off was answered
	open    []attempt                       // enrolments that got no answer
}

// attempt is an enrolment that can be tried again.
type attempt struct {
	token string
	key   *ecdsa.PrivateKey
	csr   []byte
}

// newKillSite starts a server on a data directory, with a central operator whose
// receiver is enrolled.
func newKillSite(t *testing.T, dataDir string) *killSite {
	t.Helper()
	s := &killSite{
		Server: testbed.NewServer(t, dataDir), t: t,
		issued: map[string]controlclient.Holder{}, revoked: map[string]bool{}, cut: map[string]bool{},
	}
	s.Start()
	s.holder = s.Client()
	s.Central(killOperator)
	s.receiver = s.Enroll(killOperator, "")
	s.issued[s.receiver.Serial] = s.receiver.Holder()
	return s
}

// crash kills the server; no connection to it is used again. The chain of its ledger
// verifies.
func (s *killSite) crash() {
	s.t.Helper()
	s.Kill()
	s.API.CloseIdleConnections()
	s.holder.CloseIdleConnections()
	code, out, said := run(s.t, "ledger", "verify", "--data-dir", s.DataDir)
	require.Zero(s.t, code, "%s%s", out, said)
}

// enroll tries an enrolment and remembers what came of it.
func (s *killSite) enroll(ctx context.Context, a attempt) (string, error) {
	issued, err := s.holder.Enroll(ctx, a.token, a.csr)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.open = append(s.open, a)
		return "", err
	}
	return issued.Serial, s.keep(a.key, issued)
}

// keep remembers a certificate; s.mu is held.
func (s *killSite) keep(key *ecdsa.PrivateKey, issued *controlapi.Certificate) error {
	leaf, _ := pem.Decode([]byte(issued.Certificate))
	if leaf == nil {
		return errors.New("the answer holds no certificate")
	}
	s.issued[issued.Serial] = controlclient.Holder{Key: key, Leaf: leaf.Bytes}
	return nil
}

func (s *killSite) renew(ctx context.Context, serial string) (string, error) {
	s.mu.Lock()
	holder := s.issued[serial]
	s.mu.Unlock()
	key, csr := testbed.NewRequest(s.t)
	issued, err := s.holder.Renew(ctx, holder, csr)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return issued.Serial, s.keep(key, issued)
}

// life is what one worker does until the server is gone: connect a cluster, enrol
// it, renew it, and cut it or one of its leaves off.
func (s *killSite) life(ctx context.Context) error {
	s.mu.Lock()
	s.clusters++
	id := fmt.Sprintf("c%d", s.clusters)
	s.mu.Unlock()
	if _, err := s.API.CreateCluster(ctx, operators.ClusterRequest{ID: id}); err != nil {
		return err
	}
	if _, err := s.API.ApproveCluster(ctx, id); err != nil {
		return err
	}
	if _, err := s.API.ConnectSender(ctx, killOperator, id, ""); err != nil {
		return err
	}
	token, err := s.API.CreateToken(ctx, killOperator, controlapi.RoleSender, id, 0)
	if err != nil {
		return err
	}
	key, csr := testbed.NewRequest(s.t)
	first, err := s.enroll(ctx, attempt{token.Token, key, csr})
	if err != nil {
		return err
	}
	second, err := s.renew(ctx, first)
	if err != nil {
		return err
	}
	third, err := s.renew(ctx, second)
	if err != nil {
		return err
	}
	dead := []string{first, second, third}
	if rand.IntN(2) == 0 {
		_, err = s.API.RevokeSender(ctx, killOperator, id, operators.RevokeCompromised, "", 0)
	} else {
		dead = dead[1:]
		_, err = s.API.RevokeCertificate(ctx, killOperator, second, "", 0)
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, serial := range dead {
		s.revoked[serial] = true
	}
	if len(dead) == 3 {
		s.cut[id] = true
	}
	return nil
}

// round works until the server is killed at a random moment, and checks what the
// next run knows.
func (s *killSite) round() {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for ctx.Err() == nil {
				if err := s.life(ctx); err != nil {
					var refused *controlapi.Problem
					assert.NotErrorAs(s.t, err, &refused)
					return
				}
			}
		})
	}
	moment := time.NewTimer(time.Duration(rand.IntN(400)) * time.Millisecond)
	defer moment.Stop()
	<-moment.C
	s.crash()
	cancel()
	workers.Wait()
	s.Start()
	s.check()
}

// check compares what the world was told with what the server knows, which was started again.
func (s *killSite) check() {
	s.t.Helper()
	ctx := s.t.Context()
	for _, a := range s.open { // an answer that was lost comes again
		issued, err := s.holder.Enroll(ctx, a.token, a.csr)
		require.NoError(s.t, err)
		require.NoError(s.t, s.keep(a.key, issued))
	}
	s.open = nil
	state := map[string]string{}
	for _, e := range s.Entries(killOperator, "") {
		state[e.Serial] = e.State
	}
	for serial := range s.issued {
		require.NotEmpty(s.t, state[serial], "certificate %s was issued and is not in the ledger", serial)
	}
	answer, err := s.holder.Policy(ctx, s.receiver.Holder(), "", 0)
	require.NoError(s.t, err)
	policy := payloadOf(s.t, answer.JWS)
	denied := map[string]bool{}
	for _, serial := range policy.RevokedSerials {
		denied[serial] = true
	}
	for serial := range s.revoked {
		require.Equal(s.t, ledger.StateRevoked, state[serial])
		require.True(s.t, denied[serial], "the policy does not deny %s", serial)
	}
	for _, sender := range policy.Senders {
		require.True(s.t, !s.cut[sender.ClusterID] || sender.State == controlapi.SenderRevoked, "%s is accepted again", sender.Name)
	}
	s.tryRevoked()
}

// tryRevoked renews with some of the revoked leaves.
func (s *killSite) tryRevoked() {
	s.t.Helper()
	tries := 0
	for serial := range s.revoked {
		if tries++; tries > 20 {
			return
		}
		_, csr := testbed.NewRequest(s.t)
		_, err := s.holder.Renew(s.t.Context(), s.issued[serial], csr)
		var p *controlapi.Problem
		require.ErrorAs(s.t, err, &p)
		require.Equal(s.t, controlapi.ReasonLeafRevoked, p.Reason)
	}
}

func payloadOf(t *testing.T, jws string) *controlapi.Policy {
	t.Helper()
	text, err := base64.RawURLEncoding.DecodeString(strings.Split(jws, ".")[1])
	require.NoError(t, err)
	var p controlapi.Policy
	require.NoError(t, json.Unmarshal(text, &p))
	return &p
}

// TestKills kills the server at random moments of issuing and revoking: nothing
// was issued that is not in the ledger, nothing that was revoked is accepted
// again, and the chain verifies (issue 3).
func TestKills(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	s := newKillSite(t, filepath.Join(testbed.Dir(t), "data"))
	for range kills(t) {
		s.round()
	}
	t.Logf("%d certificates issued and %d revoked over %d kills", len(s.issued), len(s.revoked), kills(t))
	require.NotEmpty(t, s.issued)
	s.restores()
}

// restores kills restores at random moments: each either did nothing, and the next
// one does it, or did all.
func (s *killSite) restores() {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "backup.jsonl")
	s.crash()
	code, _, said := run(s.t, "backup", "--data-dir", s.DataDir, "--out", file)
	require.Zero(s.t, code, said)
	for range kills(s.t) {
		target := filepath.Join(s.t.TempDir(), "restored")
		cmd := exec.CommandContext(s.t.Context(), testbed.Program(s.t, "ikhnos"), "restore", file, "--data-dir", target)
		require.NoError(s.t, cmd.Start())
		moment := time.NewTimer(time.Duration(rand.IntN(150)) * time.Millisecond)
		<-moment.C
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
		code, _, said := run(s.t, "restore", file, "--data-dir", target)
		require.True(s.t, code == 0 || strings.Contains(said, "never overwrites"), said)
		code, out, said := run(s.t, "ledger", "verify", "--data-dir", target)
		require.Zero(s.t, code, said)
		require.Contains(s.t, out, killOperator)
	}
}
