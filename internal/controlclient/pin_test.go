// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package controlclient

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"

	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/testpki"
)

func pinOf(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// serve starts a TLS server that presents leaf and then extra.
func serve(t *testing.T, handler http.Handler, leaf *testpki.Leaf, extra ...*x509.Certificate) *httptest.Server {
	t.Helper()
	pair := leaf.TLS
	for _, cert := range extra {
		pair.Certificate = append(pair.Certificate, cert.Raw)
	}
	server := httptest.NewUnstartedServer(handler)
	server.EnableHTTP2 = true
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.Config.ErrorLog = nil
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

func noContent() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
}

// trap-18: what a pin covers. The pinned certificate replaces the system's
// roots; chain, dates, usage and host name are verified as always.
func TestPins(t *testing.T) {
	ca, other := testpki.NewCA(t, "op-server"), testpki.NewCA(t, "op-other")
	now := time.Now()
	good := ca.Receiver(t)
	caFile := filepath.Join(t.TempDir(), "ca.crt")
	require.NoError(t, os.WriteFile(caFile, ca.PEM, 0o600))
	otherFile := filepath.Join(t.TempDir(), "ca.crt")
	require.NoError(t, os.WriteFile(otherFile, other.PEM, 0o600))

	for name, tc := range map[string]struct {
		leaf       *testpki.Leaf
		extra      []*x509.Certificate
		pins       []string
		caFile     string
		serverName string
		fails      string
	}{
		"pinned CA in the chain":       {leaf: good, extra: []*x509.Certificate{ca.Cert}, pins: []string{pinOf(ca.Cert)}},
		"one of two pins":              {leaf: good, extra: []*x509.Certificate{ca.Cert}, pins: []string{pinOf(other.Cert), pinOf(ca.Cert)}},
		"pinned leaf":                  {leaf: good, pins: []string{pinOf(good.Cert)}},
		"with the same ca_file":        {leaf: good, extra: []*x509.Certificate{ca.Cert}, pins: []string{pinOf(ca.Cert)}, caFile: caFile},
		"ca_file alone":                {leaf: good, caFile: caFile},
		"neither":                      {leaf: good, extra: []*x509.Certificate{ca.Cert}, fails: "unknown authority"},
		"another pin":                  {leaf: good, extra: []*x509.Certificate{ca.Cert}, pins: []string{pinOf(other.Cert)}, fails: "pin_mismatch"},
		"pinned CA not presented":      {leaf: good, pins: []string{pinOf(ca.Cert)}, fails: "pin_mismatch"},
		"pinned CA presented by thief": {leaf: other.Receiver(t), extra: []*x509.Certificate{ca.Cert}, pins: []string{pinOf(ca.Cert)}, fails: "unknown authority"},
		"another ca_file":              {leaf: good, extra: []*x509.Certificate{ca.Cert}, pins: []string{pinOf(ca.Cert)}, caFile: otherFile, fails: "by ca_file"},
		"ended": {leaf: ca.Receiver(t, testpki.Between(now.Add(-2*time.Hour), now.Add(-time.Hour))),
			extra: []*x509.Certificate{ca.Cert}, pins: []string{pinOf(ca.Cert)}, fails: "expired"},
		"pinned leaf ended": {leaf: func() *testpki.Leaf {
			good = ca.Receiver(t, testpki.Between(now.Add(-2*time.Hour), now.Add(-time.Hour)))
			return good
		}(), pins: []string{pinOf(good.Cert)}, fails: "expired"},
		"usage": {leaf: ca.Receiver(t, testpki.WithUsage(x509.ExtKeyUsageClientAuth)),
			extra: []*x509.Certificate{ca.Cert}, pins: []string{pinOf(ca.Cert)}, fails: "usage"},
		"address not in the leaf": {leaf: ca.Receiver(t, func(c *x509.Certificate) { c.IPAddresses = nil }),
			extra: []*x509.Certificate{ca.Cert}, pins: []string{pinOf(ca.Cert)}, fails: "IP SANs"},
		// case-26: the error names what is missing.
		"common name alone": {leaf: ca.Receiver(t, func(c *x509.Certificate) { c.DNSNames, c.IPAddresses = nil, nil }),
			extra: []*x509.Certificate{ca.Cert}, pins: []string{pinOf(ca.Cert)}, serverName: "op-server", fails: "use SANs instead"},
		"common name alone, by ca_file": {leaf: ca.Receiver(t, func(c *x509.Certificate) { c.DNSNames, c.IPAddresses = nil, nil }),
			caFile: caFile, serverName: "op-server", fails: "use SANs instead"},
		"name not in the leaf": {leaf: ca.Receiver(t), extra: []*x509.Certificate{ca.Cert}, pins: []string{pinOf(ca.Cert)},
			serverName: "ikhnos.example.com", fails: "ikhnos.example.com"},
		"name overridden": {leaf: ca.Receiver(t), extra: []*x509.Certificate{ca.Cert}, pins: []string{pinOf(ca.Cert)},
			serverName: "op-server.continuum-system.svc"},
	} {
		t.Run(name, func(t *testing.T) {
			server := serve(t, noContent(), tc.leaf, tc.extra...)
			cfg := NewDefaultConfig()
			cfg.Endpoint, cfg.CAPins, cfg.TLS.CAFile, cfg.TLS.ServerName = server.URL, tc.pins, tc.caFile, tc.serverName
			require.NoError(t, cfg.Validate())
			client, err := cfg.NewClient(t.Context(), componenttest.NewNopHost(), componenttest.NewNopTelemetrySettings())
			require.NoError(t, err)
			defer client.CloseIdleConnections()

			err = client.Heartbeat(t.Context(), "ikhb_x", &controlapi.Heartbeat{})
			checkPinned(t, err, tc.fails)
			if tc.caFile != "" || len(tc.pins) == 0 {
				return
			}
			transport, err := PinnedTransport(tc.pins, &tls.Config{ServerName: tc.serverName})
			require.NoError(t, err)
			client, err = New(&http.Client{Transport: transport}, server.URL, time.Now)
			require.NoError(t, err)
			defer client.CloseIdleConnections()
			checkPinned(t, client.Heartbeat(t.Context(), "ikhb_x", &controlapi.Heartbeat{}), tc.fails)
		})
	}
}

// trap-18: how a pin is replaced. Clients list the new pin beside the old one before
// the server changes; those that do not say pin_mismatch, and why is in the text.
func TestPinIsReplaced(t *testing.T) {
	old, replaced := testpki.NewCA(t, "op-server"), testpki.NewCA(t, "op-server")
	var presented atomic.Pointer[tls.Certificate]
	present := func(ca *testpki.CA) {
		pair := ca.Receiver(t).TLS
		pair.Certificate = append(pair.Certificate, ca.Cert.Raw)
		presented.Store(&pair)
	}
	server := httptest.NewUnstartedServer(noContent())
	server.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return &tls.Config{Certificates: []tls.Certificate{*presented.Load()}}, nil
	}}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	present(old)
	server.StartTLS()
	t.Cleanup(server.Close)
	client := func(pins ...string) *Client {
		transport, err := PinnedTransport(pins, nil)
		require.NoError(t, err)
		transport.DisableKeepAlives = true
		c, err := New(&http.Client{Transport: transport}, server.URL, time.Now)
		require.NoError(t, err)
		return c
	}
	ready, late := client(pinOf(old.Cert), pinOf(replaced.Cert)), client(pinOf(old.Cert))
	beat := func(c *Client) error { return c.Heartbeat(t.Context(), "ikhb_x", &controlapi.Heartbeat{}) }
	require.NoError(t, beat(ready))
	require.NoError(t, beat(late))

	present(replaced)
	require.NoError(t, beat(ready))
	err := beat(late)
	require.True(t, isPinMismatch(err))
	require.ErrorContains(t, err, "the server presents none of the pinned keys")
	require.NoError(t, beat(client(pinOf(replaced.Cert))))
}

func checkPinned(t *testing.T, err error, fails string) {
	t.Helper()
	if fails == "" {
		require.NoError(t, err)
		return
	}
	require.ErrorContains(t, err, fails)
	require.Equal(t, fails == "pin_mismatch", isPinMismatch(err))
}

func TestPinnedTransport(t *testing.T) {
	_, err := PinnedTransport([]string{"sha256:zz"}, nil)
	require.ErrorIs(t, err, errPinForm)
	plain, err := PinnedTransport(nil, nil)
	require.NoError(t, err)
	require.False(t, plain.TLSClientConfig.InsecureSkipVerify)
	require.ErrorIs(t, pinSet{}.verify(nil, "", nil, time.Now()), errHostUnknown)
}
