// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/controlclient"
)

// site is a server that comes and goes on data directories, with the people and
// the collectors around it, whose keys and memory outlive it.
type site struct {
	*machine
	serving *serving
	client  *controlclient.Client
	mu      sync.Mutex
	offset  time.Duration // guarded by mu
}

func newSite(t *testing.T, dir string) *site {
	t.Helper()
	s := &site{machine: newMachine(t, nil), offset: -25 * time.Hour} // TLS goes by the real time
	s.env.now = s.now
	s.start(dir)
	token, err := os.ReadFile(filepath.Join(dir, adminTokenFile))
	require.NoError(t, err)
	s.env.vars["IKHNOS_TOKEN"] = strings.TrimSpace(string(token))
	return s
}

func (s *site) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Add(s.offset)
}

func (s *site) wait(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offset += d
}

func (s *site) start(dir string, edit ...func(*serverConfig)) {
	s.t.Helper()
	cfg := testConfig(dir)
	for _, e := range edit {
		e(cfg)
	}
	s.serving = serveTest(s.t, cfg, s.now)
	s.env.vars["IKHNOS_SERVER"], s.env.vars["IKHNOS_CA_PIN"] = s.serving.url, s.serving.pin
	transport, err := controlclient.PinnedTransport([]string{s.serving.pin}, nil)
	require.NoError(s.t, err)
	s.t.Cleanup(transport.CloseIdleConnections)
	s.client, err = controlclient.New(&http.Client{Transport: transport}, s.serving.url, s.now)
	require.NoError(s.t, err)
}

func (s *site) stop() {
	s.t.Helper()
	require.NoError(s.t, s.serving.stop())
}

// exec runs a command line that ends with code.
func (s *site) exec(code int, args ...string) result {
	s.t.Helper()
	r := s.run(args...)
	require.Equal(s.t, code, r.code, "%v\n%s%s", args, r.stdout, r.stderr)
	return r
}

// leafHolder is a holder with its newest certificate.
type leafHolder struct {
	controlclient.Holder
	serial string
}

func request(t *testing.T) (*ecdsa.PrivateKey, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	require.NoError(t, err)
	return key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr})
}

func (s *site) enroll(token string) (leafHolder, error) {
	s.t.Helper()
	key, csr := request(s.t)
	issued, err := s.client.Enroll(s.t.Context(), token, csr)
	if err != nil {
		return leafHolder{}, err
	}
	return holding(key, issued), nil
}

func holding(key *ecdsa.PrivateKey, issued *controlapi.Certificate) leafHolder {
	leaf, _ := pem.Decode([]byte(issued.Certificate))
	return leafHolder{controlclient.Holder{Key: key, Leaf: leaf.Bytes}, issued.Serial}
}

func (s *site) renew(h leafHolder) (leafHolder, error) {
	s.t.Helper()
	key, csr := request(s.t)
	issued, err := s.client.Renew(s.t.Context(), h.Holder, csr)
	if err != nil {
		return leafHolder{}, err
	}
	return holding(key, issued), nil
}

// renewed is a renewal that must succeed.
func (s *site) renewed(h leafHolder) leafHolder {
	s.t.Helper()
	next, err := s.renew(h)
	require.NoError(s.t, err)
	return next
}

// refused is a renewal that must fail for a reason.
func (s *site) refused(reason controlapi.Reason, h leafHolder) {
	s.t.Helper()
	_, err := s.renew(h)
	var p *controlapi.Problem
	require.ErrorAs(s.t, err, &p)
	require.Equal(s.t, reason, p.Reason)
}

// connected registers a cluster, connects it to op-eu and enrols it.
func (s *site) connected(cluster string) leafHolder {
	s.t.Helper()
	s.exec(exitDone, "cluster", "add", cluster, "--approve")
	printed := s.exec(exitDone, "sender", "connect", cluster, "--operator", "op-eu").stdout
	h, err := s.enroll(enrollmentToken.FindString(printed))
	require.NoError(s.t, err)
	return h
}

// policy is what op-eu's collector gets; etag is of what it has.
func (s *site) policy(receiver leafHolder, etag string) (*controlapi.Policy, string, error) {
	s.t.Helper()
	answer, err := s.client.Policy(s.t.Context(), receiver.Holder, etag, 0)
	if err != nil {
		return nil, "", err
	}
	var p controlapi.Policy
	require.NoError(s.t, json.Unmarshal(decoded(s.t, strings.Split(answer.JWS, ".")[1]), &p))
	return &p, answer.ETag, nil
}

func (s *site) report(receiver leafHolder, p *controlapi.Policy, denied *controlapi.ReportDenied, accepted ...string) {
	s.t.Helper()
	now := controlapi.Seconds(s.now())
	r := &controlapi.Report{
		Instance: "9f1c", Version: "test", StartedAt: now, ReceiverSerial: receiver.serial,
		Policy: controlapi.ReportPolicy{Version: p.Version, AppliedAt: now}, Senders: []controlapi.ReportSender{}, Denied: denied,
	}
	for _, name := range accepted {
		r.Senders = append(r.Senders, controlapi.ReportSender{Name: name, LastAcceptedAt: &now})
	}
	require.NoError(s.t, s.client.Report(s.t.Context(), receiver.Holder, r))
}

func states(p *controlapi.Policy) map[string]controlapi.SenderState {
	found := map[string]controlapi.SenderState{}
	for _, sender := range p.Senders {
		found[sender.ClusterID] = sender.State
	}
	return found
}

// newFleet is a site with op-eu, its receiver and three senders.
func newFleet(t *testing.T, dir string) (s *site, receiver leafHolder, senders map[string]leafHolder) {
	t.Helper()
	s = newSite(t, dir)
	printed := s.exec(exitDone, "operator", "create", "EU", "--id", "op-eu", "--role", "central").stdout
	receiver, err := s.enroll(enrollmentToken.FindString(printed))
	require.NoError(t, err)
	senders = map[string]leafHolder{}
	for _, cluster := range []string{"c1", "c2", "c3"} {
		senders[cluster] = s.connected(cluster)
	}
	return s, receiver, senders
}

// TestYesterdaysBackup: after yesterday's backup is restored, what was revoked
// since stays revoked, what was issued since can be adopted, and nothing is
// renewed before the operator has told what it denies (trap-10).
func TestYesterdaysBackup(t *testing.T) {
	first, second := filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "second")
	s, receiver, senders := newFleet(t, first)
	before, _, err := s.policy(receiver, "")
	require.NoError(t, err)
	s.report(receiver, before, &controlapi.ReportDenied{Names: []string{}, Serials: []string{}})
	open := enrollmentToken.FindString(s.exec(exitDone, "token", "create", "--operator", "op-eu", "--role", "sender", "--sender", "c2").stdout)
	file := filepath.Join(t.TempDir(), "yesterday.jsonl")
	s.exec(exitDone, "backup", "--data-dir", first, "--out", file)
	info, err := os.Stat(file)
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o600), info.Mode().Perm())

	s.wait(24 * time.Hour)
	lost := map[string]leafHolder{"c2": s.renewed(senders["c2"]), "c3": s.renewed(senders["c3"]), "c4": s.connected("c4"), "c5": s.connected("c5"), "c6": s.connected("c6")}
	s.exec(exitNotConfirmed, "sender", "revoke", "c1", "--operator", "op-eu", "--wait", "0s")
	s.exec(exitNotConfirmed, "sender", "revoke", "c5", "--operator", "op-eu", "--wait", "0s")
	s.exec(exitNotConfirmed, "cert", "revoke", lost["c3"].serial, "--wait", "0s")
	last, etag, err := s.policy(receiver, "")
	require.NoError(t, err)
	require.ElementsMatch(t, []string{senders["c1"].serial, lost["c3"].serial, lost["c5"].serial}, last.RevokedSerials)
	headOfFirst := s.exec(exitDone, "ledger", "head", "op-eu").stdout
	s.stop()

	s.wait(time.Minute)
	restored := s.exec(exitDone, "restore", file, "--data-dir", second)
	assert.Contains(t, restored.stdout, "ikhnos cert adopt --issued-after ")
	s.start(second)
	now, _, err := s.policy(receiver, etag)
	require.NoError(t, err)
	assert.True(t, last.Less(now.Version), "a new epoch is taken")
	assert.Equal(t, map[string]controlapi.SenderState{"c1": "allowed", "c2": "allowed", "c3": "allowed"}, states(now), "what the operator knows better")

	_, err = s.enroll(open)
	assert.ErrorContains(t, err, string(controlapi.ReasonTokenRevoked))
	for _, h := range []leafHolder{receiver, senders["c1"], senders["c2"], senders["c3"]} {
		s.refused(controlapi.ReasonUnavailable, h)
	}
	for _, h := range lost {
		s.refused(controlapi.ReasonLeafNotInLedger, h)
	}
	assert.Contains(t, s.exec(exitFound, "status").stdout, "◷ op-eu recovering")

	denied := &controlapi.ReportDenied{Names: []string{"op-eu-export-c1", "op-eu-export-c5"}, Serials: last.RevokedSerials}
	s.report(receiver, now, denied, "op-eu-export-c2", "op-eu-export-c4", "op-eu-export-c6")
	for _, h := range []leafHolder{senders["c1"], lost["c3"], lost["c5"]} {
		s.refused(controlapi.ReasonLeafRevoked, h)
	}
	s.renewed(senders["c3"])
	receiver = s.renewed(receiver)
	status := s.exec(exitFound, "status").stdout
	assert.NotContains(t, status, "recovering")
	assert.Contains(t, status, "⬣ op-eu-export-c4 lost in the restore")

	s.exec(exitNotConfirmed, "sender", "revoke", "c6", "--operator", "op-eu", "--wait", "0s")
	dry := s.exec(exitDone, "cert", "adopt", "--issued-after", date(last.IssuedAt.Add(-48*time.Hour)), "--dry-run").stdout
	assert.Contains(t, dry, "2 certificates adopted, 3 left (dry run: nothing was changed)")
	s.refused(controlapi.ReasonLeafNotInLedger, lost["c4"])
	assert.Empty(t, s.exec(exitDone, "cert", "adopt", "--issued-after", date(s.now().Add(time.Hour))).stdout)
	adopted := s.exec(exitDone, "cert", "adopt", "--issued-after", "2d").stdout
	assert.Contains(t, adopted, "2 certificates adopted, 3 left\n")
	assert.Regexp(t, lost["c4"].serial+`\s+adopted\s+its cluster was registered`, adopted)
	assert.Regexp(t, lost["c6"].serial+`\s+left\s+its sender is revoked`, adopted)
	assert.Regexp(t, lost["c5"].serial+`\s+left\s+it was denied before`, adopted)
	s.renewed(lost["c2"])
	s.renewed(lost["c4"])
	for _, h := range []leafHolder{lost["c3"], lost["c5"]} {
		s.refused(controlapi.ReasonLeafRevoked, h)
	}

	now, _, err = s.policy(receiver, "")
	require.NoError(t, err)
	assert.Equal(t, map[string]controlapi.SenderState{"c1": "revoked", "c2": "allowed", "c3": "allowed", "c4": "allowed", "c6": "revoked"}, states(now))
	assert.Subset(t, now.RevokedSerials, last.RevokedSerials)
	assert.NotContains(t, s.exec(exitFound, "status").stdout, "lost in the restore")

	kept := filepath.Join(t.TempDir(), "head")
	require.NoError(t, os.WriteFile(kept, []byte(s.exec(exitDone, "backup", "verify", file, "-o", "json").stdout), 0o600))
	assert.Contains(t, s.exec(exitDone, "ledger", "verify", "--data-dir", second, "--head", kept).stdout, "ok")
	require.NoError(t, os.WriteFile(kept, []byte(headOfFirst), 0o600))
	assert.Contains(t, s.exec(exitFound, "ledger", "verify", "--data-dir", second, "--head", kept).stdout, "op-eu")
}

// copyDir puts a data directory back as a snapshot of the machine would.
func copyDir(t *testing.T, from, to string) {
	t.Helper()
	require.NoError(t, os.CopyFS(to, os.DirFS(from)))
}

// TestPutBack: data that was put back without restore is refused by whoever knows
// more, until a new epoch is started.
func TestPutBack(t *testing.T) {
	dir, old := filepath.Join(t.TempDir(), "new"), filepath.Join(t.TempDir(), "old")
	s, receiver, _ := newFleet(t, dir)
	s.stop()
	copyDir(t, dir, old)
	s.start(dir)
	s.exec(exitNotConfirmed, "sender", "revoke", "c1", "--operator", "op-eu", "--wait", "0s")
	last, etag, err := s.policy(receiver, "")
	require.NoError(t, err)
	refused := s.run("ledger", "new-epoch", "--data-dir", dir)
	assert.Equal(t, exitFailed, refused.code)
	assert.Contains(t, refused.stderr, "in use by another ikhnos server")
	s.stop()

	s.start(old)
	_, _, err = s.policy(receiver, etag)
	require.ErrorContains(t, err, string(controlapi.ReasonLedgerRollback))
	s.stop()
	assert.Regexp(t, `^epoch \d+ begins\n$`, s.exec(exitDone, "ledger", "new-epoch", "--data-dir", old).stdout)
	s.start(old)
	now, _, err := s.policy(receiver, etag)
	require.NoError(t, err)
	assert.True(t, last.Less(now.Version))
	s.stop()
	assert.Contains(t, s.exec(exitDone, "ledger", "verify", "--data-dir", old).stdout, "ok")
	none := s.run("ledger", "new-epoch", "--data-dir", filepath.Join(old, "typo"))
	assert.Equal(t, exitFailed, none.code)
	assert.NoDirExists(t, filepath.Join(old, "typo"), "nothing is made by mistake")
}
