// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	tracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"

	"github.com/ikhnos/continuum/control/cli/apiclient"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/control/pki"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// serving is a control server that a test has started.
type serving struct {
	*runningServer
	t    *testing.T
	log  *logBuffer
	stop func() error
}

type logBuffer struct{ lines chan string }

func (b *logBuffer) Write(p []byte) (int, error) {
	select {
	case b.lines <- string(p):
	default: // nobody reads that much
	}
	return len(p), nil
}

// find returns the next line of the log that holds text.
func (b *logBuffer) find(t *testing.T, text string) string {
	t.Helper()
	for {
		select {
		case line := <-b.lines:
			if strings.Contains(line, text) {
				return line
			}
		case <-time.After(time.Minute):
			t.Fatalf("the log says nothing of %q", text)
		}
	}
}

func testConfig(dir string) *serverConfig {
	return &serverConfig{
		listen: "127.0.0.1:0", metricsListen: "127.0.0.1:0", metricsWanted: true, dataDir: dir,
		leafLifetime: maxLeafLifetime, logFormat: "text", logLevel: "debug",
	}
}

func serveTest(t *testing.T, cfg *serverConfig, now func() time.Time) *serving {
	t.Helper()
	s := &serving{t: t, log: &logBuffer{lines: make(chan string, 1<<14)}}
	ctx, cancel := context.WithCancel(context.Background())
	var err error
	s.runningServer, err = startServer(ctx, cfg, slog.New(slog.NewTextHandler(s.log, nil)), now)
	if err != nil {
		cancel()
	}
	require.NoError(t, err)
	ended := false
	s.stop = func() error {
		if ended {
			return nil
		}
		ended = true
		cancel()
		return s.wait()
	}
	t.Cleanup(func() { assert.NoError(t, s.stop()) })
	return s
}

// client is an API client with the pin and the first token, as a person has them.
func (s *serving) client(dir string) *apiclient.Client {
	s.t.Helper()
	token, err := os.ReadFile(filepath.Join(dir, adminTokenFile))
	require.NoError(s.t, err)
	client, err := apiclient.New(apiclient.Config{Server: s.adminURL, Token: string(token), CAPins: []string{s.pin}, Timeout: time.Minute})
	require.NoError(s.t, err)
	s.t.Cleanup(client.CloseIdleConnections)
	return client
}

func TestServerFirstStartAndRestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "with a space")
	s := serveTest(t, testConfig(dir), time.Now)
	assert.Contains(t, s.log.find(t, "pin sha256:"), s.pin)
	info, err := os.Stat(filepath.Join(dir, adminTokenFile))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	orgs, err := s.client(dir).Orgs(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []operators.Org{{ID: "default", Name: "Default"}}, orgs)

	_, err = startServer(t.Context(), testConfig(dir), slog.New(slog.DiscardHandler), time.Now)
	require.ErrorContains(t, err, dir, "a second server on the same directory")
	pin := s.pin
	require.NoError(t, s.stop())

	again := serveTest(t, testConfig(dir), time.Now)
	assert.Equal(t, pin, again.pin, "the server CA is in the database")
	_, err = again.client(dir).Orgs(t.Context())
	require.NoError(t, err)
}

func TestServerMetricsAndSplit(t *testing.T) {
	dir := t.TempDir()
	cfg := testConfig(dir)
	cfg.adminListen = "127.0.0.1:0"
	s := serveTest(t, cfg, time.Now)
	resp, err := http.Get(s.metricsURL + "/metrics")
	require.NoError(t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	for _, want := range []string{"ikhnos_build_info", "ikhnos_ca_keys_sealed 0", "ikhnos_backup_last_success_timestamp_seconds 0", "ikhnos_server_certificate_not_after_timestamp_seconds", "go_goroutines", "process_"} {
		assert.Contains(t, string(text), want)
	}
	resp, err = http.Get(s.metricsURL + "/healthz")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, http.StatusNotFound, resp.StatusCode)
	_, err = s.client(dir).Orgs(t.Context())
	require.NoError(t, err)
	assert.NotEqual(t, s.url, s.adminURL)
	http.DefaultClient.CloseIdleConnections()
}

func TestServerPassphrase(t *testing.T) {
	dir := t.TempDir()
	cfg := testConfig(dir)
	cfg.passphrase = []byte("right")
	require.NoError(t, serveTest(t, cfg, time.Now).stop())
	for name, passphrase := range map[string][]byte{"wrong": []byte("wrong"), "none": nil} {
		cfg := testConfig(dir)
		cfg.passphrase = passphrase
		_, err := startServer(t.Context(), cfg, slog.New(slog.DiscardHandler), time.Now)
		require.Error(t, err, name)
		assert.Equal(t, exitFailed, exitCode(err))
	}
	plain := t.TempDir()
	require.NoError(t, serveTest(t, testConfig(plain), time.Now).stop())
	cfg = testConfig(plain)
	cfg.passphrase = []byte("late")
	_, err := startServer(t.Context(), cfg, slog.New(slog.DiscardHandler), time.Now)
	require.ErrorIs(t, err, pki.ErrNotSealed)
}

func TestServerAdminTokenFromFile(t *testing.T) {
	dir := t.TempDir()
	cfg := testConfig(dir)
	cfg.adminToken = controlapi.NewSecret(controlapi.SecretAdmin, nil)
	s := serveTest(t, cfg, time.Now)
	assert.NoFileExists(t, filepath.Join(dir, adminTokenFile))
	_, err := s.ops.Authenticate(t.Context(), cfg.adminToken)
	require.NoError(t, err)

	bad := testConfig(t.TempDir())
	bad.adminToken = "hello"
	_, err = startServer(t.Context(), bad, slog.New(slog.DiscardHandler), time.Now)
	require.Error(t, err)
}

// TestServerRun: one clear error line that says what to do.
func TestServerRun(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, taken.Close()) })
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte("x"), 0o600))
	config := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(config, []byte("listen: nonsense\n"), 0o600))
	odd := filepath.Join(t.TempDir(), "odd.yaml")
	require.NoError(t, os.WriteFile(odd, []byte("lisen: x\n"), 0o600))
	for name, tc := range map[string]struct {
		args, env []string
		code      int
		says      []string
	}{
		"port in use":           {[]string{"--listen", taken.Addr().String()}, nil, exitFailed, []string{"cannot listen on " + taken.Addr().String(), "--listen"}},
		"metrics port in use":   {[]string{"--listen", "127.0.0.1:0", "--metrics-listen", taken.Addr().String()}, nil, exitFailed, []string{"--metrics-listen"}},
		"data dir is a file":    {[]string{"--data-dir", file}, nil, exitFailed, []string{file}},
		"unknown flag":          {[]string{"--lisen", "x"}, nil, exitUsage, []string{"unknown flag --lisen", "--listen"}},
		"argument":              {[]string{"now"}, nil, exitUsage, []string{"now"}},
		"short lifetime":        {[]string{"--leaf-lifetime", "59s"}, nil, exitUsage, []string{"60s to 720h"}},
		"long lifetime":         {[]string{"--leaf-lifetime", "721h"}, nil, exitUsage, []string{"60s to 720h"}},
		"key without cert":      {[]string{"--tls-key", file}, nil, exitUsage, []string{"--tls-cert"}},
		"plain public URL":      {[]string{"--public-url", "http://x"}, nil, exitUsage, []string{"--public-url"}},
		"proxy that is no CIDR": {[]string{"--trusted-proxy", "10.0.0.1"}, nil, exitUsage, []string{"CIDR"}},
		"another database":      {[]string{"--database-url", "mysql://x"}, nil, exitUsage, []string{"postgres://"}},
		"no passphrase file":    {[]string{"--passphrase-file", file + ".not"}, nil, exitFailed, []string{"--passphrase-file"}},
		"from the environment":  {nil, []string{"IKHNOS_LEAF_LIFETIME=1s"}, exitUsage, []string{"60s to 720h"}},
		"flag wins":             {[]string{"--leaf-lifetime", "1h", "--listen", "nonsense"}, []string{"IKHNOS_LEAF_LIFETIME=1s"}, exitUsage, []string{"--listen"}},
		"from the file":         {[]string{"--config", config}, nil, exitUsage, []string{"--listen"}},
		"environment wins":      {[]string{"--config", config}, []string{"IKHNOS_LISTEN=" + taken.Addr().String()}, exitFailed, []string{"cannot listen"}},
		"unknown key":           {[]string{"--config", odd}, nil, exitUsage, []string{"lisen"}},
	} {
		t.Run(name, func(t *testing.T) {
			args := tc.args
			if !strings.Contains(strings.Join(args, " "), "--data-dir") {
				args = append(args, "--data-dir", t.TempDir())
			}
			var out, stderr bytes.Buffer
			env := newEnvironment(tc.env, strings.NewReader(""), &stderr)
			code := run(withEnvironment(t.Context(), env), append([]string{"server"}, args...), strings.NewReader(""), &out, &stderr)
			assert.Equal(t, tc.code, code, "%s", stderr.String())
			for _, says := range tc.says {
				assert.Contains(t, stderr.String(), says)
			}
		})
	}
}

// TestServerStops: after a stop nobody is answered.
func TestServerStops(t *testing.T) {
	dir := t.TempDir()
	s := serveTest(t, testConfig(dir), time.Now)
	client := s.client(dir)
	_, err := client.Orgs(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.stop())
	_, err = client.Orgs(t.Context())
	require.Error(t, err)
}

// TestServerCertificate: the certificate that the server makes for itself has SANs for
// what a first user dials (case-26), and renews itself.
func TestServerCertificate(t *testing.T) {
	start := time.Now()
	now := start
	ca, err := pki.NewServerCA(now)
	require.NoError(t, err)
	cfg := testConfig("")
	cfg.listen = "0.0.0.0:8443"
	held, err := newServerTLS(cfg, ca, func() time.Time { return now }, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	first, err := held.certificate()
	require.NoError(t, err)
	assert.Equal(t, []string{"localhost"}, first.Leaf.DNSNames)
	assert.Len(t, first.Leaf.IPAddresses, 2)
	now = start.Add(59 * 24 * time.Hour)
	same, err := held.certificate()
	require.NoError(t, err)
	assert.Same(t, first, same)
	now = start.Add(61 * 24 * time.Hour)
	next, err := held.certificate()
	require.NoError(t, err)
	assert.NotSame(t, first, next, "the leaf renews itself")
}

// TestServerCertificateFiles: read again when changed, and a broken file keeps
// the last good pair (case-1, case-5). The files lie as the kubelet lays a Secret:
// links into a folder that is swapped, here with dates that stand still.
func TestServerCertificateFiles(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	ca, err := pki.NewServerCA(now)
	require.NoError(t, err)
	cfg := testConfig("")
	cfg.tlsCert, cfg.tlsKey = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	for _, path := range []string{cfg.tlsCert, cfg.tlsKey} {
		require.NoError(t, os.Symlink(filepath.Join("..data", filepath.Base(path)), path))
	}
	swap := func(generation string, chain string, key []byte) {
		folder := filepath.Join(dir, generation)
		require.NoError(t, os.Mkdir(folder, 0o700))
		for name, content := range map[string][]byte{"tls.crt": []byte(chain), "tls.key": key} {
			path := filepath.Join(folder, name)
			require.NoError(t, os.WriteFile(path, content, 0o600))
			require.NoError(t, os.Chtimes(path, time.Unix(1, 0), time.Unix(1, 0)))
		}
		require.NoError(t, os.Symlink(generation, filepath.Join(dir, "..data_tmp")))
		require.NoError(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	}
	write := func(generation string) *tls.Certificate {
		leaf, err := pki.NewServerLeaf(ca, []string{"localhost"}, now, time.Hour)
		require.NoError(t, err)
		chain := ""
		for _, der := range leaf.Certificate {
			chain += pki.CertPEM(der)
		}
		swap(generation, chain, keyPEM(t, leaf.PrivateKey))
		return leaf
	}
	last := write("..1")
	held, err := newServerTLS(cfg, nil, func() time.Time { return now }, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	pin, err := held.pin()
	require.NoError(t, err)
	assert.Equal(t, pki.Pin(ca.Cert), pin)
	shown := func() []byte {
		pair, err := held.certificate()
		require.NoError(t, err)
		return pair.Certificate[0]
	}
	assert.Equal(t, last.Certificate[0], shown())
	for _, generation := range []string{"..2", "..3", "..4"} {
		now = now.Add(time.Minute)
		last = write(generation)
		assert.Equal(t, last.Certificate[0], shown(), generation)
	}
	now = now.Add(time.Minute)
	swap("..5", "half a certificate", []byte("half a ke"))
	assert.Equal(t, last.Certificate[0], shown())
}

func keyPEM(t *testing.T, key any) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// traceSink takes spans as a collector would.
type traceSink struct {
	tracepb.UnimplementedTraceServiceServer
	names chan string
}

func (s *traceSink) Export(_ context.Context, r *tracepb.ExportTraceServiceRequest) (*tracepb.ExportTraceServiceResponse, error) {
	for _, resource := range r.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				select {
				case s.names <- span.GetName():
				default:
				}
			}
		}
	}
	return &tracepb.ExportTraceServiceResponse{}, nil
}

// TestServerTraces: the server's own requests arrive as spans over real OTLP.
func TestServerTraces(t *testing.T) {
	sink := &traceSink{names: make(chan string, 100)}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	receiver := grpc.NewServer()
	tracepb.RegisterTraceServiceServer(receiver, sink)
	go func() { _ = receiver.Serve(listener) }()
	t.Cleanup(receiver.Stop)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+listener.Addr().String())
	dir := t.TempDir()
	cfg := testConfig(dir)
	cfg.traces = true
	s := serveTest(t, cfg, time.Now)
	_, err = s.client(dir).Orgs(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.stop())
	assert.Equal(t, "GET /api/v1/orgs", <-sink.names)
}
