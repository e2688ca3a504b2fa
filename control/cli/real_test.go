// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/controlclient"
)

// realServer is a whole control server in this process, and a machine that
// administers it.
type realServer struct {
	*machine
	client *controlclient.Client // as holders use it
	said   []string              // everything that command lines printed
}

func newRealServer(t *testing.T) *realServer {
	t.Helper()
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	cfg := &serverConfig{listen: "127.0.0.1:0", dataDir: dir, leafLifetime: maxLeafLifetime}
	server, err := startServer(ctx, cfg, slog.New(slog.NewTextHandler(io.Discard, nil)), time.Now)
	require.NoError(t, err)
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, server.wait())
	})
	m := newMachine(t, nil)
	m.env.now = time.Now
	m.env.vars["IKHNOS_SERVER"], m.env.vars["IKHNOS_CA_PIN"] = server.url, server.pin
	m.env.vars["IKHNOS_TOKEN"] = strings.TrimSpace(m.ok("admin-token", "show-initial", "--data-dir", dir))

	transport, err := controlclient.PinnedTransport([]string{server.pin}, nil)
	require.NoError(t, err)
	t.Cleanup(transport.CloseIdleConnections)
	client, err := controlclient.New(&http.Client{Transport: transport}, server.url, time.Now)
	require.NoError(t, err)
	return &realServer{machine: m, client: client}
}

// exec runs a command line that ends with code and returns what it printed.
func (s *realServer) exec(code int, args ...string) string {
	s.t.Helper()
	r := s.run(args...)
	require.Equal(s.t, code, r.code, "%v\n%s%s", args, r.stdout, r.stderr)
	s.said = append(s.said, r.stdout, r.stderr)
	return r.stdout
}

var enrollmentToken = regexp.MustCompile(`(?m)^iktok_\S+$`)

// enroll takes the token out of what was printed and gets a certificate for it.
func (s *realServer) enroll(printed string) (*controlapi.Certificate, controlclient.Holder) {
	s.t.Helper()
	token := enrollmentToken.FindString(printed)
	require.NotEmpty(s.t, token, printed)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(s.t, err)
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	require.NoError(s.t, err)
	issued, err := s.client.Enroll(s.t.Context(), token, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr}))
	require.NoError(s.t, err)
	leaf, _ := pem.Decode([]byte(issued.Certificate))
	return issued, controlclient.Holder{Key: key, Leaf: leaf.Bytes}
}

// The day of an administrator, from an empty server to a cut-off that is
// confirmed.
func TestAgainstTheRealServer(t *testing.T) {
	s := newRealServer(t)

	assert.Contains(t, s.exec(exitDone, "org", "list"), "default")
	assert.Equal(t, "Nothing needs you.", strings.Split(s.exec(exitDone, "status"), "\n")[0])
	assert.Contains(t, s.exec(exitDone, "version", "--check"), "server")

	s.exec(exitDone, "cluster", "add", "c7", "--label", "env=prod", "--tenant", "5:6", "--silent-after", "90s")
	assert.Contains(t, s.exec(exitFound, "status"), "◌ 1 cluster waiting for approval")
	assert.Equal(t, "approved c7: approved\n", s.exec(exitDone, "cluster", "approve", "c7"))
	assert.Contains(t, s.exec(exitDone, "cluster", "set", "c7", "--label", "team=a", "--unset-label", "env"), "set c7: approved")
	got := s.exec(exitDone, "cluster", "get", "c7")
	assert.Contains(t, got, "team=a")
	assert.NotContains(t, got, "env=prod", got)
	assert.Contains(t, got, "5:6")
	assert.Contains(t, got, "90s")
	s.exec(exitDone, "cluster", "add", "c8", "--kind", "host", "--approve")
	assert.Contains(t, s.exec(exitDone, "cluster", "list"), "c8  host        approved")

	central := s.exec(exitDone, "operator", "create", "Central", "--id", "op-central", "--role", "central")
	_, _ = s.enroll(central)
	regional := s.exec(exitDone, "operator", "create", "EU", "--id", "op-eu", "--destination", "op-central", "--heartbeat", "on", "--source", "c8")
	assert.Len(t, enrollmentToken.FindAllString(regional, -1), 2, "one for its receiver, one towards its destination")
	_, receiver := s.enroll(regional)
	assert.Contains(t, s.exec(exitDone, "operator", "install", "op-eu", "--format", "shell"), "helm upgrade --install")
	assert.Contains(t, s.exec(exitDone, "operator", "install", "op-eu", "--with-keys", "--format", "manifests"), "name: op-eu-receiver-tls")
	assert.Equal(t, "senders dial op-eu at eu.example.com:4317\n", s.exec(exitDone, "operator", "address", "op-eu", "eu.example.com"))
	assert.Contains(t, s.exec(exitDone, "operator", "get", "op-eu"), "op-eu.continuum-system.svc")
	assert.Contains(t, s.exec(exitDone, "operator", "list"), "eu.example.com:4317")

	issued, _ := s.enroll(s.exec(exitDone, "sender", "connect", "c7", "--operator", "op-eu"))
	assert.Equal(t, "op-eu-export-c7", issued.Name)
	assert.Contains(t, s.exec(exitDone, "sender", "list", "--operator", "op-eu"), "– not measured  c7")
	s.report(receiver, 1, "op-eu-export-c7")
	assert.Contains(t, s.exec(exitDone, "sender", "list", "--operator", "op-eu"), "● active")
	assert.Contains(t, s.exec(exitDone, "sender", "wait", "c7", "--operator", "op-eu"), "its data was accepted at ")
	assert.Contains(t, s.exec(exitDone, "sender", "get", "c7"), "3 traces")
	assert.Contains(t, s.exec(exitDone, "policy", "get", "op-eu"), "op-eu-export-c7")

	assert.Contains(t, s.exec(exitDone, "cert", "list", "--operator", "op-eu", "--holder", "op-eu-export-c7"), issued.Serial)
	assert.Contains(t, s.exec(exitDone, "cert", "get", issued.Serial[:12]), "ends")
	s.exec(exitDone, "cert", "list", "--failing")

	revoked := s.exec(exitNotConfirmed, "sender", "revoke", "c7", "--operator", "op-eu", "--note", "laptop stolen", "--wait", "0s")
	receiptID := regexp.MustCompile(`receipt (\S+)`).FindStringSubmatch(revoked)[1]
	assert.Contains(t, s.exec(exitFound, "status"), "✕ "+receiptID+" not confirmed")
	s.report(receiver, 1<<40, "op-eu-export-c7")
	assert.Contains(t, s.exec(exitDone, "receipt", "get", receiptID), "confirmed by 1 of 1 instance")
	s.enroll(s.exec(exitDone, "sender", "restore", "c7", "--operator", "op-eu"))
	s.enroll(s.exec(exitDone, "sender", "rekey", "c7", "--operator", "op-eu"))

	assert.Contains(t, s.exec(exitDone, "audit", "list", "--since", "1h"), "sender-revoked")
	exported := s.exec(exitDone, "audit", "export", "--event", "sender-revoked")
	assert.Contains(t, exported, "laptop stolen")
	assert.Contains(t, s.exec(exitDone, "audit", "export", "--format", "csv", "--since", "1h"), "sequence,at,actor,event,object")

	path := filepath.Join(t.TempDir(), "export.jsonl")
	s.exec(exitDone, "ledger", "export", "op-eu", "--out", path)
	assert.Contains(t, s.exec(exitDone, "ledger", "verify", "--file", path), "ok")
	assert.NotRegexp(t, `\bbad\b`, s.exec(exitDone, "ledger", "verify"))
	head := strings.Fields(s.exec(exitDone, "ledger", "head", "op-eu"))
	s.exec(exitDone, "ledger", "verify", "op-eu", "--head", head[2])

	s.exec(exitRefused, "operator", "revoke", "op-central", "--wait", "0s", "--yes")
	s.exec(exitNotConfirmed, "cluster", "revoke", "c8", "--wait", "0s", "--confirm", "c8")
	s.exec(exitNotConfirmed, "cluster", "delete", "c8", "--wait", "0s", "--confirm", "c8") // contract 7
	s.exec(exitNotConfirmed, "operator", "delete", "op-eu", "--force", "--wait", "0s", "--confirm", "op-eu")

	s.scan()
}

// report is what the operator's collector tells after it applied a policy.
func (s *realServer) report(h controlclient.Holder, number int64, sender string) {
	s.t.Helper()
	answer, err := s.client.Policy(s.t.Context(), h, "", 0)
	require.NoError(s.t, err)
	payload := strings.Split(answer.JWS, ".")[1]
	var version controlapi.Version
	require.NoError(s.t, json.Unmarshal(decoded(s.t, payload), &version))
	now := controlapi.Seconds(time.Now())
	number = min(number, version.Number)
	require.NoError(s.t, s.client.Report(s.t.Context(), h, &controlapi.Report{
		Instance: "9f1c", Version: "test", StartedAt: now,
		Policy:  controlapi.ReportPolicy{Version: controlapi.Version{Epoch: version.Epoch, Number: number}, AppliedAt: now},
		Senders: []controlapi.ReportSender{{Name: sender, LastAcceptedAt: &now, Accepted: controlapi.SignalCounts{Traces: 3}}},
	}))
}

// scan finds secrets in what was printed: an admin token never, an enrolment
// token or a heartbeat secret only alone on its line.
func (s *realServer) scan() {
	for _, text := range s.said {
		assert.NotRegexp(s.t, `ikadm_\w`, text)
		assert.NotContains(s.t, text, "PRIVATE KEY")
		for line := range strings.Lines(text) {
			if strings.Contains(line, "iktok_") || strings.Contains(line, "ikhb_") {
				assert.Regexp(s.t, `^ik(tok|hb)_\S+\n$`, line)
			}
		}
	}
}

// An organisation's first token administers that organisation alone.
func TestOrganisations(t *testing.T) {
	s := newRealServer(t)
	path := filepath.Join(t.TempDir(), "admin")
	assert.NotContains(t, s.exec(exitDone, "org", "create", "acme", "--name", "Acme", "--out", path), "ikadm_")
	s.exec(exitDone, "cluster", "add", "c1")

	assert.Contains(t, s.exec(exitDone, "--token-file", path, "--org", "acme", "cluster", "list", "-o", "json"), `"items": []`)
	s.exec(exitRefused, "--token-file", path, "--org", "default", "cluster", "list")
	s.exec(exitRefused, "--token-file", path, "--org", "acme", "org", "list")
	s.env.vars["IKHNOS_ORG"] = "acme"
	s.exec(exitRefused, "--token-file", path, "cluster", "get", "c1")

	viewer := filepath.Join(t.TempDir(), "viewer")
	s.exec(exitDone, "--token-file", path, "admin-token", "create", "eve", "--role", "viewer", "--expires", "1h", "--out", viewer)
	s.exec(exitRefused, "--token-file", viewer, "cluster", "add", "c2")
	listed := s.exec(exitDone, "--token-file", path, "admin-token", "list")
	id := regexp.MustCompile(`(?m)^(\S+)\s+eve`).FindStringSubmatch(listed)[1]
	s.exec(exitDone, "--token-file", path, "admin-token", "revoke", id)
	s.exec(exitRefused, "--token-file", viewer, "cluster", "list")
	s.scan()
}

// The life of an enrolment token, seen from the command line.
func TestTokens(t *testing.T) {
	s := newRealServer(t)
	s.exec(exitDone, "operator", "create", "Central", "--id", "op-central", "--role", "central")
	first := filepath.Join(t.TempDir(), "first")
	s.exec(exitDone, "token", "create", "--operator", "op-central", "--ttl", "2m", "--out", first)
	listed := s.exec(exitDone, "token", "list", "--operator", "op-central")
	assert.Contains(t, listed, "open")
	assert.Contains(t, listed, "revoked", "minting ended the token that the creation had printed")
	id := regexp.MustCompile(`(?m)^(\S+).*open`).FindStringSubmatch(listed)[1]
	s.exec(exitDone, "token", "revoke", id, "--operator", "op-central")
	s.exec(exitRefused, "token", "create", "--operator", "op-central", "--sender", "c9")
	s.exec(exitRefused, "token", "create", "--operator", "op-none")
	content, err := os.ReadFile(first)
	require.NoError(t, err)
	_, err = s.client.Enroll(t.Context(), strings.TrimSpace(string(content)), []byte("x"))
	assert.Error(t, err)
	s.scan()
}
