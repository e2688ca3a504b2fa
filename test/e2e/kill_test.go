// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	cryptorand "crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
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

	"github.com/ikhnos/continuum/control/cli/apiclient"
	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/controlclient"
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
	t        *testing.T
	program  string
	dir      string
	receiver controlclient.Holder
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

// killServer is one run of the program.
type killServer struct {
	cmd    *exec.Cmd
	output sync.WaitGroup
	url    string
	pin    string
	token  string // of role server
	admin  *apiclient.Client
	holder *controlclient.Client
	close  func()
}

func (s *killSite) command(args ...string) (int, string) {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), s.program, args...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(s.t, err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// start runs the server and returns once it answers.
func (s *killSite) start() *killServer {
	s.t.Helper()
	k := &killServer{cmd: exec.CommandContext(s.t.Context(), s.program, "server", "--data-dir", s.dir,
		"--listen", "127.0.0.1:0", "--metrics-listen", "", "--log-format", "json")}
	log, err := k.cmd.StderrPipe()
	require.NoError(s.t, err)
	require.NoError(s.t, k.cmd.Start())
	s.ready(log, k)
	token, err := os.ReadFile(filepath.Join(s.dir, "admin.token"))
	require.NoError(s.t, err)
	k.token = strings.TrimSpace(string(token))
	k.admin, err = apiclient.New(apiclient.Config{Server: k.url, Token: k.token, CAPins: []string{k.pin}, Timeout: 2 * time.Minute})
	require.NoError(s.t, err)
	transport, err := controlclient.PinnedTransport([]string{k.pin}, nil)
	require.NoError(s.t, err)
	k.holder, err = controlclient.New(&http.Client{Transport: transport}, k.url, time.Now)
	require.NoError(s.t, err)
	k.close = func() {
		transport.CloseIdleConnections()
		k.admin.CloseIdleConnections()
	}
	return k
}

// ready reads the log until the server answers, and drops the rest of it.
func (s *killSite) ready(log io.Reader, k *killServer) {
	s.t.Helper()
	lines := bufio.NewScanner(log)
	var said []string
	for lines.Scan() {
		var line struct{ Msg, URL string }
		require.NoError(s.t, json.Unmarshal(lines.Bytes(), &line))
		said = append(said, lines.Text())
		if text, ok := strings.CutPrefix(line.Msg, "pin "); ok {
			k.pin = text
		}
		if line.URL != "" {
			k.url = line.URL
			k.output.Go(func() { _, _ = io.Copy(io.Discard, log) })
			return
		}
	}
	s.t.Fatalf("the server did not start:\n%s", strings.Join(said, "\n"))
}

// stop asks the server to end, as a service manager does.
func (k *killServer) stop(t *testing.T) {
	t.Helper()
	k.close()
	assert.NoError(t, k.cmd.Process.Signal(os.Interrupt))
	k.output.Wait()
	assert.NoError(t, k.cmd.Wait())
}

func (k *killServer) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, k.cmd.Process.Kill())
	k.output.Wait()
	_ = k.cmd.Wait() // it tells of the kill
	k.close()
}

// enroll tries an enrolment and remembers what came of it.
func (s *killSite) enroll(ctx context.Context, k *killServer, a attempt) (string, error) {
	issued, err := k.holder.Enroll(ctx, a.token, a.csr)
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

func (s *killSite) renew(ctx context.Context, k *killServer, serial string) (string, error) {
	s.mu.Lock()
	holder := s.issued[serial]
	s.mu.Unlock()
	key, csr := newRequest(s.t)
	issued, err := k.holder.Renew(ctx, holder, csr)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return issued.Serial, s.keep(key, issued)
}

// life is what one worker does until the server is gone: connect a cluster, enrol
// it, renew it, and cut it or one of its leaves off.
func (s *killSite) life(ctx context.Context, k *killServer) error {
	s.mu.Lock()
	s.clusters++
	id := fmt.Sprintf("c%d", s.clusters)
	s.mu.Unlock()
	if _, err := k.admin.CreateCluster(ctx, operators.ClusterRequest{ID: id}); err != nil {
		return err
	}
	if _, err := k.admin.ApproveCluster(ctx, id); err != nil {
		return err
	}
	if _, err := k.admin.ConnectSender(ctx, killOperator, id, ""); err != nil {
		return err
	}
	token, err := k.admin.CreateToken(ctx, killOperator, controlapi.RoleSender, id, 0)
	if err != nil {
		return err
	}
	key, csr := newRequest(s.t)
	first, err := s.enroll(ctx, k, attempt{token.Token, key, csr})
	if err != nil {
		return err
	}
	second, err := s.renew(ctx, k, first)
	if err != nil {
		return err
	}
	third, err := s.renew(ctx, k, second)
	if err != nil {
		return err
	}
	dead := []string{first, second, third}
	if rand.IntN(2) == 0 {
		_, err = k.admin.RevokeSender(ctx, killOperator, id, operators.RevokeCompromised, "", 0)
	} else {
		dead = dead[1:]
		_, err = k.admin.RevokeCertificate(ctx, killOperator, second, "", 0)
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
	k := s.start()
	ctx, cancel := context.WithCancel(s.t.Context())
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for ctx.Err() == nil {
				if err := s.life(ctx, k); err != nil {
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
	k.kill(s.t)
	cancel()
	workers.Wait()
	code, out := s.command("ledger", "verify", "--data-dir", s.dir)
	require.Zero(s.t, code, out)
	s.check()
}

// check compares what the world was told with what a new run of the server knows.
func (s *killSite) check() {
	s.t.Helper()
	k := s.start()
	defer k.kill(s.t)
	ctx := s.t.Context()
	for _, a := range s.open { // an answer that was lost comes again
		issued, err := k.holder.Enroll(ctx, a.token, a.csr)
		require.NoError(s.t, err)
		require.NoError(s.t, s.keep(a.key, issued))
	}
	s.open = nil
	entries, err := k.admin.Certificates(ctx, apiclient.CertificateFilter{Operator: killOperator})
	require.NoError(s.t, err)
	state := map[string]string{}
	for _, e := range entries {
		state[e.Serial] = e.State
	}
	for serial := range s.issued {
		require.NotEmpty(s.t, state[serial], "certificate %s was issued and is not in the ledger", serial)
	}
	answer, err := k.holder.Policy(ctx, s.receiver, "", 0)
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
	s.tryRevoked(k)
}

// tryRevoked renews with some of the revoked leaves.
func (s *killSite) tryRevoked(k *killServer) {
	s.t.Helper()
	tries := 0
	for serial := range s.revoked {
		if tries++; tries > 20 {
			return
		}
		_, csr := newRequest(s.t)
		_, err := k.holder.Renew(s.t.Context(), s.issued[serial], csr)
		var p *controlapi.Problem
		require.ErrorAs(s.t, err, &p)
		require.Equal(s.t, controlapi.ReasonLeafRevoked, p.Reason)
	}
}

// newRequest is a new key with a certificate request for it.
func newRequest(t *testing.T) (*ecdsa.PrivateKey, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), cryptorand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificateRequest(cryptorand.Reader, &x509.CertificateRequest{}, key)
	require.NoError(t, err)
	return key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
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
	s := &killSite{
		t: t, program: program(t, "ikhnos"), dir: spacedDir(t),
		issued: map[string]controlclient.Holder{}, revoked: map[string]bool{}, cut: map[string]bool{},
	}
	k := s.start()
	_, err := k.admin.CreateOperator(t.Context(), operators.OperatorRequest{ID: killOperator, Name: "Kill", Role: operators.RoleCentral})
	require.NoError(t, err)
	token, err := k.admin.CreateToken(t.Context(), killOperator, controlapi.RoleReceiver, "", 0)
	require.NoError(t, err)
	key, csr := newRequest(t)
	serial, err := s.enroll(t.Context(), k, attempt{token.Token, key, csr})
	require.NoError(t, err)
	s.receiver = s.issued[serial]
	k.kill(t)

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
	code, out := s.command("backup", "--data-dir", s.dir, "--out", file)
	require.Zero(s.t, code, out)
	for range kills(s.t) {
		target := filepath.Join(s.t.TempDir(), "restored")
		cmd := exec.CommandContext(s.t.Context(), s.program, "restore", file, "--data-dir", target)
		require.NoError(s.t, cmd.Start())
		moment := time.NewTimer(time.Duration(rand.IntN(150)) * time.Millisecond)
		<-moment.C
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
		code, out := s.command("restore", file, "--data-dir", target)
		require.True(s.t, code == 0 || strings.Contains(out, "never overwrites"), out)
		code, out = s.command("ledger", "verify", "--data-dir", target)
		require.Zero(s.t, code, out)
		require.Contains(s.t, out, killOperator)
	}
}
