// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package pki_test

import (
	"crypto/x509"
	"math/big"
	"net"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/pki"
)

// PK-1, PK-2, PK-3.
func TestOperatorCA(t *testing.T) {
	ca := newCA(t, "op-a")
	c := ca.Cert
	assert.Equal(t, "Ikhnos operator CA op-a", c.Subject.CommonName)
	assert.Equal(t, c.RawSubject, c.RawIssuer)
	assert.True(t, c.IsCA && c.BasicConstraintsValid && c.MaxPathLen == 0 && c.MaxPathLenZero, "leaves only")
	assert.Equal(t, x509.KeyUsageCertSign|x509.KeyUsageCRLSign|x509.KeyUsageDigitalSignature, c.KeyUsage)
	assert.Equal(t, now.Add(-time.Hour), c.NotBefore)
	assert.Equal(t, time.Date(2031, 3, 1, 12, 0, 0, 0, time.UTC), c.NotAfter)
	assert.True(t, c.PermittedDNSDomainsCritical)
	assert.Equal(t, []string{"op-a.ikhnos"}, c.PermittedURIDomains)
	assert.Empty(t, c.PermittedDNSDomains)
	assert.Len(t, c.SubjectKeyId, 20)
	assert.Equal(t, c.SubjectKeyId, c.AuthorityKeyId)
	assert.Equal(t, "P-256", ca.Key.Curve.Params().Name)
	assert.NotEqual(t, c.RawSubjectPublicKeyInfo, newCA(t, "op-a").Cert.RawSubjectPublicKeyInfo, "a new key each time")
	assert.LessOrEqual(t, c.SerialNumber.BitLen(), 159)
}

// PK-4, PK-14, PK-17, PK-19, PK-20; case-26: names stand in the SAN, not in the common
// name alone.
func TestLeafProfiles(t *testing.T) {
	ca := newCA(t, "op-a")
	for _, test := range []struct {
		name   string
		record pki.Record
		usage  x509.ExtKeyUsage
		dns    []string
		uris   []string
	}{
		{"sender", senderRecord(), x509.ExtKeyUsageClientAuth, []string{"op-a-export-c1"}, []string{"spiffe://op-a.ikhnos/cluster/c1"}},
		{"receiver", receiverRecord(), x509.ExtKeyUsageServerAuth, []string{
			"op-a", "op-a.continuum-system", "op-a.continuum-system.svc", "op-a.continuum-system.svc.cluster.local",
			"op-a-regional-operator", "op-a-regional-operator.continuum-system", "op-a-regional-operator.continuum-system.svc",
			"op-a-regional-operator.continuum-system.svc.cluster.local",
		}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			leaf := sign(t, ca, test.record, &newKey(t).PublicKey)
			assert.Equal(t, 3, leaf.Version)
			assert.Equal(t, test.record.Holder, leaf.Subject.CommonName)
			assert.Equal(t, test.dns, leaf.DNSNames)
			var uris []string
			for _, u := range leaf.URIs {
				uris = append(uris, u.String())
			}
			assert.Equal(t, test.uris, uris)
			assert.Equal(t, []x509.ExtKeyUsage{test.usage}, leaf.ExtKeyUsage)
			assert.Equal(t, x509.KeyUsageDigitalSignature, leaf.KeyUsage)
			assert.False(t, leaf.IsCA)
			assert.Equal(t, ca.Cert.SubjectKeyId, leaf.AuthorityKeyId)
			assert.Equal(t, test.record.Serial, leaf.SerialNumber.Text(16))
			assert.Equal(t, test.record.NotBefore, leaf.NotBefore)
			assert.Equal(t, test.record.NotAfter, leaf.NotAfter)

			own := x509.NewCertPool()
			own.AddCert(ca.Cert)
			_, err := leaf.Verify(x509.VerifyOptions{Roots: own, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{test.usage}})
			require.NoError(t, err)
			foreign := x509.NewCertPool() // PK-6
			foreign.AddCert(newCA(t, "op-a").Cert)
			_, err = leaf.Verify(x509.VerifyOptions{Roots: foreign, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{test.usage}})
			require.Error(t, err)
		})
	}
}

func TestLocalhostIsAnOption(t *testing.T) {
	for record, want := range map[*pki.Record]bool{ptr(receiverRecord()): true, ptr(senderRecord()): false} {
		template, err := pki.Template(*record, true)
		require.NoError(t, err)
		if want {
			assert.Contains(t, template.DNSNames, "localhost")
		} else {
			assert.NotContains(t, template.DNSNames, "localhost")
		}
	}
}

func ptr[T any](v T) *T { return &v }

// The CA's constraint binds: a leaf with a URI of another operator is refused.
func TestNameConstraint(t *testing.T) {
	ca := newCA(t, "op-a")
	r := senderRecord()
	r.OperatorID = "op-b"
	leaf := sign(t, ca, r, &newKey(t).PublicKey)
	roots := x509.NewCertPool()
	roots.AddCert(ca.Cert)
	_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	require.Error(t, err)
}

// One certificate per serial: the same record and key give the same bytes.
func TestSigningIsDeterministic(t *testing.T) {
	ca, key := newCA(t, "op-a"), newKey(t)
	first := sign(t, ca, senderRecord(), &key.PublicKey)
	for range 20 {
		assert.Equal(t, first.Raw, sign(t, ca, senderRecord(), &key.PublicKey).Raw)
	}
}

func TestTemplateRefuses(t *testing.T) {
	for name, edit := range map[string]func(*pki.Record){
		"no serial":   func(r *pki.Record) { r.Serial = "" },
		"zero serial": func(r *pki.Record) { r.Serial = "00" },
		"not hex":     func(r *pki.Record) { r.Serial = "xyz" },
		"no role":     func(r *pki.Record) { r.Role = "" },
	} {
		t.Run(name, func(t *testing.T) {
			r := senderRecord()
			edit(&r)
			_, err := pki.Template(r, false)
			require.Error(t, err)
		})
	}
}

// Check finds every way in which a leaf can differ from its profile.
func TestCheckBites(t *testing.T) {
	ca, key := newCA(t, "op-a"), newKey(t)
	want, err := pki.Template(senderRecord(), false)
	require.NoError(t, err)
	other, err := url.Parse("spiffe://op-a.ikhnos/cluster/c2")
	require.NoError(t, err)
	for name, edit := range map[string]func(*x509.Certificate){
		"serial":       func(c *x509.Certificate) { c.SerialNumber = big.NewInt(7) },
		"name":         func(c *x509.Certificate) { c.Subject.CommonName = "op-a-export-c2" },
		"more subject": func(c *x509.Certificate) { c.Subject.Organization = []string{"o"} },
		"later":        func(c *x509.Certificate) { c.NotAfter = c.NotAfter.Add(time.Second) },
		"earlier":      func(c *x509.Certificate) { c.NotBefore = c.NotBefore.Add(-time.Second) },
		"past its CA":  func(c *x509.Certificate) { c.NotAfter = ca.Cert.NotAfter.Add(time.Second) },
		"usage":        func(c *x509.Certificate) { c.KeyUsage |= x509.KeyUsageKeyEncipherment },
		"two EKU": func(c *x509.Certificate) {
			c.ExtKeyUsage = append([]x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, c.ExtKeyUsage...)
		},
		"no EKU":  func(c *x509.Certificate) { c.ExtKeyUsage = nil },
		"CA":      func(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = true, true },
		"DNS":     func(c *x509.Certificate) { c.DNSNames = append([]string{"x"}, c.DNSNames...) },
		"no DNS":  func(c *x509.Certificate) { c.DNSNames = nil },
		"URI":     func(c *x509.Certificate) { c.URIs = []*url.URL{other} },
		"no URI":  func(c *x509.Certificate) { c.URIs = nil },
		"address": func(c *x509.Certificate) { c.IPAddresses = []net.IP{{192, 0, 2, 1}} },
		"mail":    func(c *x509.Certificate) { c.EmailAddresses = []string{"a@b"} },
	} {
		t.Run(name, func(t *testing.T) {
			wrong := *want
			edit(&wrong)
			der, err := pki.Sign(&wrong, &key.PublicKey, ca)
			require.NoError(t, err)
			require.Error(t, pki.Check(der, want, &key.PublicKey, ca))
		})
	}
	der, err := pki.Sign(want, &key.PublicKey, ca)
	require.NoError(t, err)
	require.NoError(t, pki.Check(der, want, &key.PublicKey, ca))
	require.ErrorContains(t, pki.Check(der, want, &newKey(t).PublicKey, ca), "public key")
	require.ErrorContains(t, pki.Check(der, want, &key.PublicKey, newCA(t, "op-b")), "issuer")
	require.Error(t, pki.Check(der[1:], want, &key.PublicKey, ca))
}

func TestCRL(t *testing.T) {
	ca := newCA(t, "op-a")
	parse := func(der []byte) *x509.RevocationList {
		l, err := x509.ParseRevocationList(der)
		require.NoError(t, err)
		require.NoError(t, l.CheckSignatureFrom(ca.Cert))
		return l
	}
	revoked := []pki.RevokedLeaf{
		{Serial: "0a01", RevokedAt: now, Reason: "compromised"},
		{Serial: "0a02", RevokedAt: now, Reason: "retired"},
		{Serial: "0a03", RevokedAt: now, Reason: "operator_revoked"},
		{Serial: "0a04", RevokedAt: now, Reason: "replaced"}, // by the key of a rekey
	}
	der, err := pki.SignCRL(ca, pki.CRLNumber(3, 41), revoked, now, now.Add(pki.CRLLife))
	require.NoError(t, err)
	again, err := pki.SignCRL(ca, pki.CRLNumber(3, 41), revoked, now, now.Add(pki.CRLLife))
	require.NoError(t, err)
	assert.Equal(t, der, again, "deterministic")
	l := parse(der)
	assert.Equal(t, "55340232221128654889", l.Number.String()) // 3 * 2^64 + 41
	assert.Equal(t, now, l.ThisUpdate)
	assert.Equal(t, now.Add(day), l.NextUpdate)
	require.Len(t, l.RevokedCertificateEntries, 4)
	for i, code := range []int{1, 5, 0, 4} {
		e := l.RevokedCertificateEntries[i]
		assert.Equal(t, "a0"+strconv.Itoa(i+1), e.SerialNumber.Text(16))
		assert.Equal(t, code, e.ReasonCode)
		assert.Equal(t, now, e.RevocationTime)
	}
	last, err := pki.SignCRL(ca, pki.CRLNumber(3, 42), nil, now, ca.Cert.NotAfter.Add(day))
	require.NoError(t, err)
	assert.Equal(t, ca.Cert.NotAfter, parse(last).NextUpdate, "no further than the CA's end")
	_, err = pki.SignCRL(ca, pki.CRLNumber(3, 42), []pki.RevokedLeaf{{Serial: "?"}}, now, now)
	require.Error(t, err)
}

// A program that is not Go reads and verifies what we sign.
func TestOpenSSL(t *testing.T) {
	real := time.Now() // openssl verifies at the present
	ca, err := pki.NewOperatorCA("op-a", real)
	require.NoError(t, err)
	files := map[string]string{"ca.pem": pki.CertPEM(ca.Cert.Raw)}
	for name, r := range map[string]pki.Record{"sender": senderRecord(), "receiver": receiverRecord()} {
		r.NotBefore, r.NotAfter = real.Add(-time.Minute).Truncate(time.Second), real.Add(time.Hour).Truncate(time.Second)
		files[name+".pem"] = pki.CertPEM(sign(t, ca, r, &newKey(t).PublicKey).Raw)
	}
	crl, err := pki.SignCRL(ca, pki.CRLNumber(1, 2), []pki.RevokedLeaf{{Serial: senderRecord().Serial, RevokedAt: real, Reason: "compromised"}}, real, real.Add(day))
	require.NoError(t, err)
	files["crl.der"] = string(crl)

	for _, test := range []struct {
		name string
		args []string
		ok   bool
		says []string
	}{
		{"CA", []string{"x509", "-in", "ca.pem", "-noout", "-text"}, true, []string{
			"X509v3 Name Constraints: critical", "URI:op-a.ikhnos", "CA:TRUE, pathlen:0",
			"Digital Signature, Certificate Sign, CRL Sign", "CN = Ikhnos operator CA op-a",
		}},
		{"sender", []string{"x509", "-in", "sender.pem", "-noout", "-text"}, true, []string{
			"X509v3 Key Usage: critical", "TLS Web Client Authentication",
			"DNS:op-a-export-c1, URI:spiffe://op-a.ikhnos/cluster/c1",
		}},
		{"verify sender", []string{"verify", "-x509_strict", "-CAfile", "ca.pem", "-purpose", "sslclient", "sender.pem"}, true, []string{"sender.pem: OK"}},
		{"verify receiver", []string{"verify", "-x509_strict", "-CAfile", "ca.pem", "-purpose", "sslserver", "-verify_hostname", "op-a.continuum-system.svc", "receiver.pem"}, true, []string{"receiver.pem: OK"}},
		{"a sender is no server", []string{"verify", "-CAfile", "ca.pem", "-purpose", "sslserver", "sender.pem"}, false, nil},
		{"a receiver is no client", []string{"verify", "-CAfile", "ca.pem", "-purpose", "sslclient", "receiver.pem"}, false, nil},
		{"revocation list", []string{"crl", "-in", "crl.der", "-inform", "DER", "-CAfile", "ca.pem", "-noout", "-text"}, true, []string{
			"verify OK", "Version 2", "Key Compromise", "2A00FF00AA00112233445566778899AABBCCDDEE",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, err := openssl(t, files, test.args...)
			assert.Equal(t, test.ok, err == nil, out)
			for _, text := range test.says {
				assert.Contains(t, out, text)
			}
		})
	}
}
