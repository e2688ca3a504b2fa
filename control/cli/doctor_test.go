// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/testpki"
)

// otlpReceiver is a server of HTTP/2 that demands a client certificate, as an
// operator's gRPC receiver does.
func otlpReceiver(t *testing.T, ca *testpki.CA, leaf *testpki.Leaf) string {
	t.Helper()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.EnableHTTP2 = true
	server.TLS = &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{leaf.TLS},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool(),
	}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func TestDoctor(t *testing.T) {
	ca, other := testpki.NewCA(t, "op-eu"), testpki.NewCA(t, "op-eu")
	leaf := ca.Sender(t, controlapi.KindCluster, "c1")
	good := t.TempDir()
	leaf.WriteDir(t, good, ca)
	address := otlpReceiver(t, ca, ca.Receiver(t))
	s := newRealServer(t)
	s.env.vars["IKHNOS_TOKEN"] = strings.Clone(s.env.vars["IKHNOS_TOKEN"])

	got := s.exec(exitDone, "doctor", "--dir", good, "--operator-address", address)
	for _, want := range []string{
		"ok       server       https://", "ok       trust        its certificate is from the pinned CA and ends in ", "ok       clock        ",
		"ok       admin token  opens organisation default", "ok       certificate  op-eu-export-c1 in " + good + " is a sender (clientAuth), ends in ",
		"ok       operator     " + address + " answers as op-eu.continuum-system.svc", "ok       operator     it accepts the handshake", "no problem found\n",
	} {
		assert.Contains(t, got, want)
	}

	expired, foreign, mixed, receiver := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
	ca.Sender(t, controlapi.KindCluster, "c1", testpki.Between(time.Now().Add(-48*time.Hour), time.Now().Add(-time.Hour))).WriteDir(t, expired, ca)
	other.Sender(t, controlapi.KindCluster, "c1").WriteDir(t, foreign, other)
	other.Sender(t, controlapi.KindCluster, "c1").WriteDir(t, mixed, other)
	require.NoError(t, os.WriteFile(filepath.Join(mixed, "ca.crt"), ca.PEM, 0o600))
	ca.Receiver(t).WriteDir(t, receiver, ca)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	nobody := silent.Addr().String()
	require.NoError(t, silent.Close())
	open := t.TempDir()
	leaf.WriteDir(t, open, ca)
	require.NoError(t, os.Chmod(filepath.Join(open, "tls.key"), 0o644))
	stranger := otlpReceiver(t, ca, ca.Sender(t, controlapi.KindCluster, "c9"))

	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no certificate":      {[]string{"--dir", t.TempDir()}, "problem  certificate  "},
		"expired":             {[]string{"--dir", expired}, "it ended 60 min ago\n  do     enrol again with a new token"},
		"not refused at once": {[]string{"--dir", expired, "--operator-address", address}, "problem  operator     " + address + " does not accept the certificate in " + expired},
		"another CA":          {[]string{"--dir", foreign, "--operator-address", address}, "presents a certificate that ca.crt in " + foreign + " did not sign"},
		"a mixed folder":      {[]string{"--dir", mixed}, "problem  certificate  "},
		"a receiver's":        {[]string{"--dir", receiver, "--operator-address", address}, receiver + " holds no sender's certificate"},
		"nobody there":        {[]string{"--dir", good, "--operator-address", nobody}, "problem  operator     " + nobody + " does not answer"},
		"another name":        {[]string{"--dir", good, "--operator-address", stranger}, "answers as op-eu-export-c9, not as op-eu.continuum-system.svc"},
		"open key":            {[]string{"--dir", open}, "problem  private key  "},
		"no server":           {[]string{"--server", "https://127.0.0.1:1"}, "problem  server       https://127.0.0.1:1 does not answer"},
		"another pin":         {[]string{"--ca-pin", "sha256:" + strings.Repeat("00", 32)}, "presents none of the pinned keys"},
	} {
		t.Run(name, func(t *testing.T) {
			r := s.run(append([]string{"doctor"}, tc.args...)...)
			assert.Equal(t, exitFound, r.code, r.stderr)
			assert.Contains(t, strings.ReplaceAll(r.stdout, "1 h ago", "60 min ago"), tc.want)
			assert.Regexp(t, `(?m)^  do     .+$`, r.stdout)
		})
	}
	assert.Equal(t, exitUsage, s.run("doctor", "--operator-address", address).code)
}

// The clock is compared with the server's, and the admin token is not needed.
func TestDoctorClock(t *testing.T) {
	s := newRealServer(t)
	delete(s.env.vars, "IKHNOS_TOKEN")
	for offset, want := range map[time.Duration]string{
		0:                "ok       clock        ",
		10 * time.Second: "s ahead of the server's, which is near enough",
		-9 * time.Minute: "min behind the server's\n  do     set this machine's clock",
	} {
		s.env.now = func() time.Time { return time.Now().Add(offset) }
		r := s.run("doctor")
		assert.Contains(t, r.stdout, want)
		assert.NotContains(t, r.stdout, "admin token")
	}
	delete(s.env.vars, "IKHNOS_SERVER")
	r := s.run("doctor", "-o", "json")
	assert.Equal(t, exitFound, r.code)
	assert.Contains(t, r.stdout, `"found": "no control server is given"`)
}
