// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/testpki"
)

func TestCertInspect(t *testing.T) {
	ca, stranger := testpki.NewCA(t, "op-eu"), testpki.NewCA(t, "op-eu")
	now := time.Now()
	day := 24 * time.Hour
	leaf := func(opts ...testpki.LeafOption) *testpki.Leaf {
		return ca.Sender(t, controlapi.KindCluster, "c7", opts...)
	}
	dates := func(from, to time.Duration) testpki.LeafOption {
		return func(c *x509.Certificate) { c.NotBefore, c.NotAfter = now.Add(from), now.Add(to) }
	}
	good := leaf()
	tests := map[string]struct {
		content string
		want    []string // found in the text
		problem string   // found in it as the only problem; none when empty
	}{
		"sender with its CA": {string(good.CertPEM) + string(ca.PEM), []string{"certificate 1 of 2: CN=op-eu-export-c7",
			"spiffe://op-eu.ikhnos/cluster/c7", "sender (clientAuth)", "signed by certificate 2", "CA\n", "signed by itself", "ECDSA P-256"}, ""},
		"receiver alone":  {string(ca.Receiver(t).CertPEM), []string{"receiver (serverAuth)", "which is not here"}, ""},
		"pair":            {string(good.CertPEM) + string(good.KeyPEM), []string{"1 private key"}, ""},
		"ended":           {string(leaf(dates(-20*day, -2*day)).CertPEM), nil, "certificate 1: it ended 2 d ago"},
		"not yet":         {string(leaf(dates(day*3, day*20)).CertPEM), nil, "certificate 1: it is not valid yet, only in "},
		"overdue":         {string(leaf(dates(-20*day, 10*day)).CertPEM), nil, "certificate 1: its renewal is overdue: it ends in "},
		"a minute's leaf": {string(leaf(dates(-10*time.Minute, time.Minute)).CertPEM), nil, ""},
		"no usage":        {string(leaf(func(c *x509.Certificate) { c.ExtKeyUsage = nil }).CertPEM), nil, "certificate 1: it has neither serverAuth nor clientAuth"},
		"no SAN":          {string(leaf(func(c *x509.Certificate) { c.DNSNames, c.URIs = nil, nil }).CertPEM), nil, "certificate 1: it has no SAN"},
		"names of two senders": {string(leaf(func(c *x509.Certificate) {
			c.URIs = []*url.URL{{Scheme: "spiffe", Host: "op-eu.ikhnos", Path: "/cluster/c8"}}
		}).CertPEM), nil, "certificate 1: its URI spiffe://op-eu.ikhnos/cluster/c8"},
		"another CA's":          {string(good.CertPEM) + string(stranger.PEM), nil, "certificate 1: a CA with its issuer's name is here, and did not sign it"},
		"another's key":         {string(good.CertPEM) + string(leaf().KeyPEM), nil, "the private key belongs to none of the certificates"},
		"nothing":               {"hello", nil, "there is no PEM block in it"},
		"damaged":               {string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: good.Cert.Raw[:100]})), nil, "block 1 (CERTIFICATE) cannot be read"},
		"damaged key":           {string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte{1}})), nil, "block 1 (PRIVATE KEY) cannot be read"},
		"something else passes": {string(pem.EncodeToMemory(&pem.Block{Type: "DH PARAMETERS", Bytes: []byte{1}})) + string(good.CertPEM), nil, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.pem")
			require.NoError(t, os.WriteFile(path, []byte(test.content), 0o600))
			m := newMachine(t, nil)
			m.env.now = func() time.Time { return now }
			got := m.run("cert", "inspect", path)
			for _, want := range test.want {
				assert.Contains(t, got.stdout, want)
			}
			if test.problem == "" {
				assert.Equal(t, exitDone, got.code, got.stdout)
				assert.Contains(t, got.stdout, "no problem found\n")
				return
			}
			assert.Equal(t, exitFound, got.code, got.stdout)
			assert.Contains(t, got.stdout, "problem: "+test.problem)

			var document pemFile
			got = m.run("cert", "inspect", path, "-o", "json")
			assert.Equal(t, exitFound, got.code)
			require.NoError(t, json.Unmarshal([]byte(got.stdout), &document))
			assert.Len(t, document.Problems, 1)
		})
	}
}

func TestCertInspectDirectory(t *testing.T) {
	ca := testpki.NewCA(t, "op-eu")
	dir := t.TempDir()
	ca.Receiver(t).WriteDir(t, dir, ca)
	m := newMachine(t, nil)
	m.env.now = time.Now
	assert.Contains(t, m.ok("cert", "inspect", filepath.Join(dir, "tls.crt")), "signed by ca.crt beside it")
	m.ok("cert", "inspect", filepath.Join(dir, "ca.crt"))

	require.NoError(t, os.WriteFile(filepath.Join(dir, "other.crt"), testpki.NewCA(t, "op-us").Receiver(t).CertPEM, 0o600))
	got := m.run("cert", "inspect", filepath.Join(dir, "other.crt"))
	assert.Equal(t, exitFound, got.code)
	assert.Contains(t, got.stdout, "\nproblem: certificate 1: ca.crt beside it is another CA\n")

	key := filepath.Join(dir, "loose.pem")
	content, err := os.ReadFile(filepath.Join(dir, "tls.key"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(key, content, 0o644))
	got = m.run("cert", "inspect", key)
	assert.Equal(t, exitFound, got.code)
	assert.Contains(t, got.stdout, "problem: the private key may be read by others (mode 0644; 0600 is right)")

	assert.Equal(t, exitFailed, m.run("cert", "inspect", filepath.Join(dir, "none")).code)
}

func FuzzParsePEM(f *testing.F) {
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	f.Add([]byte("-----BEGIN X509 CRL-----\nMAA=\n-----END X509 CRL-----\n"))
	f.Fuzz(func(_ *testing.T, content []byte) {
		file := parsePEM(content, testNow)
		file.checkKeys()
		file.checkChains(nil)
		writePEMFile(discard{}, file, testNow)
	})
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
