// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package testpki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/identity"
)

// Lives and backdates of contract section 3.
const (
	caLife       = 5 * 365 * 24 * time.Hour
	caBackdate   = time.Hour
	LeafLife     = 30 * 24 * time.Hour
	LeafBackdate = 10 * time.Minute
)

// CA is the certificate authority of one operator.
type CA struct {
	Cert *x509.Certificate
	Key  *ecdsa.PrivateKey
	PEM  []byte

	operatorID string
}

// NewCA makes a CA of the profile that operators have.
func NewCA(t testing.TB, operatorID string) *CA {
	t.Helper()
	key := NewKey(t)
	now := time.Now()
	ski := keyID(t, key.Public())
	template := &x509.Certificate{
		SerialNumber:                newSerial(t),
		Subject:                     pkix.Name{CommonName: "Ikhnos operator CA " + operatorID},
		NotBefore:                   now.Add(-caBackdate),
		NotAfter:                    now.Add(caLife),
		IsCA:                        true,
		BasicConstraintsValid:       true,
		MaxPathLenZero:              true,
		KeyUsage:                    x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
		PermittedDNSDomainsCritical: true,
		PermittedURIDomains:         []string{identity.TrustDomain(operatorID)},
		SubjectKeyId:                ski,
		AuthorityKeyId:              ski,
	}
	cert := sign(t, template, template, key.Public(), key)
	return &CA{Cert: cert, Key: key, PEM: CertPEM(cert.Raw), operatorID: operatorID}
}

// Pool returns a pool that holds this CA alone.
func (ca *CA) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(ca.Cert)
	return pool
}

// SPKIHash is the SHA-256 of the CA's public key, of which a token carries the
// first bytes.
func (ca *CA) SPKIHash() []byte {
	sum := sha256.Sum256(ca.Cert.RawSubjectPublicKeyInfo)
	return sum[:]
}

// Leaf is an issued certificate. Key, KeyPEM and TLS are empty when the leaf was
// made for somebody else's key; see [ForKey].
type Leaf struct {
	Cert            *x509.Certificate
	Key             *ecdsa.PrivateKey
	CertPEM, KeyPEM []byte
	TLS             tls.Certificate
}

// LeafOption edits the template of a leaf before it is signed.
type LeafOption func(*x509.Certificate)

// ForKey signs the leaf for the public key of a certificate request instead of
// a key of its own.
func ForKey(pub crypto.PublicKey) LeafOption {
	return func(c *x509.Certificate) { c.PublicKey = pub }
}

// Between sets the dates of a leaf.
func Between(notBefore, notAfter time.Time) LeafOption {
	return func(c *x509.Certificate) { c.NotBefore, c.NotAfter = notBefore, notAfter }
}

// WithUsage sets the extended key usages of a leaf.
func WithUsage(usages ...x509.ExtKeyUsage) LeafOption {
	return func(c *x509.Certificate) { c.ExtKeyUsage = usages }
}

// Sender issues the client certificate of a cluster or an operator.
func (ca *CA) Sender(t testing.TB, kind controlapi.Kind, holderID string, opts ...LeafOption) *Leaf {
	t.Helper()
	name := identity.SenderName(ca.operatorID, holderID)
	uri, err := url.Parse(identity.SenderURI(ca.operatorID, kind, holderID))
	if err != nil {
		t.Fatalf("parsing the sender's URI: %v", err)
	}
	return ca.issue(t, &x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		DNSNames:    []string{name},
		URIs:        []*url.URL{uri},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, opts)
}

// Receiver issues the operator's server certificate, for its names and for
// localhost and the loopback addresses.
func (ca *CA) Receiver(t testing.TB, opts ...LeafOption) *Leaf {
	t.Helper()
	return ca.issue(t, &x509.Certificate{
		Subject:     pkix.Name{CommonName: ca.operatorID},
		DNSNames:    append(identity.ReceiverNames(ca.operatorID), "localhost"),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, opts)
}

func (ca *CA) issue(t testing.TB, template *x509.Certificate, opts []LeafOption) *Leaf {
	t.Helper()
	now := time.Now()
	template.SerialNumber = newSerial(t)
	template.NotBefore = now.Add(-LeafBackdate)
	template.NotAfter = now.Add(LeafLife)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.BasicConstraintsValid = true
	for _, opt := range opts {
		opt(template)
	}
	if pub := template.PublicKey; pub != nil {
		cert := sign(t, template, ca.Cert, pub, ca.Key)
		return &Leaf{Cert: cert, CertPEM: CertPEM(cert.Raw)}
	}
	key := NewKey(t)
	cert := sign(t, template, ca.Cert, key.Public(), ca.Key)
	return &Leaf{
		Cert:    cert,
		Key:     key,
		CertPEM: CertPEM(cert.Raw),
		KeyPEM:  KeyPEM(t, key),
		TLS:     tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert},
	}
}

// WriteDir writes the leaf and the CA as three plain files, the way other
// programs fill a certificate directory.
func (l *Leaf) WriteDir(t testing.TB, dir string, ca *CA) {
	t.Helper()
	for name, data := range map[string][]byte{"tls.crt": l.CertPEM, "tls.key": l.KeyPEM, "ca.crt": ca.PEM} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatalf("writing %s: %v", name, err)
		}
	}
}

// NewKey makes a P-256 key.
func NewKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("making a key: %v", err)
	}
	return key
}

// CertPEM is one certificate as a PEM block.
func CertPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// KeyPEM is a private key as a PKCS#8 PEM block.
func KeyPEM(t testing.TB, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatalf("encoding a key: %v", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func sign(t testing.TB, template, parent *x509.Certificate, pub crypto.PublicKey, key crypto.Signer) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, pub, key)
	if err != nil {
		t.Fatalf("signing a certificate: %v", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatalf("parsing a certificate: %v", err)
	}
	return cert
}

// newSerial draws 159 random bits with the highest one set, so that a serial
// always has the same length.
func newSerial(t testing.TB) *big.Int {
	t.Helper()
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 158))
	if err != nil {
		t.Fatalf("drawing a serial: %v", err)
	}
	return serial.SetBit(serial, 158, 1)
}

func keyID(t testing.TB, pub crypto.PublicKey) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		t.Fatalf("encoding a public key: %v", err)
	}
	sum := sha256.Sum256(der)
	return sum[:20]
}
