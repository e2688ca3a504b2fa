// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/ikhnos/continuum/internal/identity"
)

// Dates of CAs, in years, and how far back they are dated for slow clocks.
const (
	operatorCAYears = 5
	serverCAYears   = 20
	caBackdate      = time.Hour
)

// CA is a certificate authority with its key. It is immutable and may be shared.
type CA struct {
	Cert *x509.Certificate
	Key  *ecdsa.PrivateKey
}

// NewOperatorCA makes the private CA of one operator: a new P-256 key and a
// self-signed certificate of five years that may sign leaves only, and no URI
// outside the operator's trust domain.
func NewOperatorCA(operatorID string, now time.Time) (*CA, error) {
	return newCA("Ikhnos operator CA "+operatorID, now, operatorCAYears, func(t *x509.Certificate) {
		t.PermittedDNSDomainsCritical = true // of all name constraints
		t.PermittedURIDomains = []string{identity.TrustDomain(operatorID)}
	})
}

// newCA makes a self-signed CA; edit adds to its template.
func newCA(name string, now time.Time, years int, edit func(*x509.Certificate)) (*CA, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a CA key: %w", err)
	}
	now = now.UTC().Truncate(time.Second)
	t := &x509.Certificate{
		SerialNumber:          NewSerial(),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             now.Add(-caBackdate),
		NotAfter:              now.AddDate(years, 0, 0),
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
	}
	spki, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return nil, fmt.Errorf("encoding a CA key: %w", err)
	}
	id := sha256.Sum256(spki)
	t.SubjectKeyId = id[:20] // RFC 7093, method 1 over the whole SPKI
	t.AuthorityKeyId = t.SubjectKeyId
	edit(t)
	der, err := x509.CreateCertificate(nil, t, t, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("signing a CA certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("parsing a CA certificate: %w", err)
	}
	return &CA{Cert: cert, Key: key}, nil
}

// NewSerial draws a serial of 159 random bits: 20 bytes with a clear sign bit, so
// its hex has one length but for leading zero bytes.
func NewSerial() *big.Int {
	b := make([]byte, 20)
	for {
		_, _ = rand.Read(b) // never fails: crypto/rand ends the process instead
		b[0] &= 0x7f
		if n := new(big.Int).SetBytes(b); n.Sign() > 0 {
			return n
		}
	}
}

// SPKIHash is the SHA-256 of a public key in its X.509 form, in lower-case hex.
func SPKIHash(pub *ecdsa.PublicKey) (string, error) {
	_, hash, err := spkiOf(pub)
	return hash, err
}

// spkiPrefix is the X.509 form of a P-256 key (RFC 5480) up to its point.
var spkiPrefix = []byte("\x30\x59\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x03\x42\x00")

// spkiOf is a P-256 key in its X.509 form, and its SPKIHash.
func spkiOf(pub *ecdsa.PublicKey) (der []byte, hash string, err error) {
	if pub.Curve != elliptic.P256() {
		return nil, "", errors.New("the key is not a P-256 key")
	}
	point, err := pub.Bytes()
	if err != nil {
		return nil, "", fmt.Errorf("encoding a public key: %w", err)
	}
	der = slices.Concat(spkiPrefix, point)
	sum := sha256.Sum256(der)
	return der, hex.EncodeToString(sum[:]), nil
}

// Pin is how a certificate's key is pinned: sha256: and the hex of its SPKI hash.
func Pin(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// CertPEM is one PEM block of a certificate, as encoding/pem writes it, which takes
// ten times as long.
func CertPEM(der []byte) string {
	const line = 64 // characters of base64
	text := base64.StdEncoding.AppendEncode(nil, der)
	out := make([]byte, 0, len(text)+len(text)/line+64)
	out = append(out, "-----BEGIN CERTIFICATE-----\n"...)
	for part := range slices.Chunk(text, line) {
		out = append(append(out, part...), '\n')
	}
	return string(append(out, "-----END CERTIFICATE-----\n"...))
}
