// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"time"

	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/identity"
)

// Record is what the ledger says of one leaf, and the CA that signs it. It alone
// (with the key and the Localhost option) decides every byte of the certificate.
type Record struct {
	OperatorID string
	Serial     string // lower-case hex
	Role       controlapi.Role
	Kind       controlapi.Kind // of a sender
	HolderID   string          // of a sender
	Holder     string          // the certificate's name
	NotBefore  time.Time
	NotAfter   time.Time
	RenewAfter time.Time
	RenewBy    time.Time
	CACert     []byte // DER
	CAKey      []byte // sealed
}

// Template is the leaf profile: a pure function of the ledger's record. With
// localhost, which the demo alone sets, a receiver is also good for that name.
func Template(r Record, localhost bool) (*x509.Certificate, error) {
	serial, ok := new(big.Int).SetString(r.Serial, 16)
	if !ok || serial.Sign() <= 0 {
		return nil, errors.New("the record has no usable serial")
	}
	t := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: r.Holder},
		NotBefore:    r.NotBefore.UTC(),
		NotAfter:     r.NotAfter.UTC(),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
	switch r.Role {
	case controlapi.RoleReceiver:
		t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		t.DNSNames = identity.ReceiverNames(r.OperatorID)
		if localhost {
			t.DNSNames = append(t.DNSNames, "localhost")
		}
	case controlapi.RoleSender:
		uri, err := url.Parse(identity.SenderURI(r.OperatorID, r.Kind, r.HolderID))
		if err != nil {
			return nil, fmt.Errorf("making the sender's uri: %w", err)
		}
		t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		t.DNSNames = []string{r.Holder}
		t.URIs = []*url.URL{uri}
	default:
		return nil, fmt.Errorf("a leaf of role %q has no profile", r.Role)
	}
	return t, nil
}

// Sign signs a leaf. A nil random source makes ECDSA deterministic (RFC 6979);
// crypto/x509 verifies the signature before it returns.
func Sign(t *x509.Certificate, pub *ecdsa.PublicKey, ca *CA) ([]byte, error) {
	der, err := x509.CreateCertificate(nil, t, ca.Cert, pub, ca.Key)
	if err != nil {
		return nil, fmt.Errorf("signing a leaf: %w", err)
	}
	return der, nil
}

// Check parses a signed leaf and compares it with the template it should follow.
// It is the last step before a certificate leaves.
func Check(der []byte, want *x509.Certificate, pub *ecdsa.PublicKey, ca *CA) error {
	got, err := x509.ParseCertificate(der)
	if err != nil {
		return fmt.Errorf("parsing the signed leaf: %w", err)
	}
	for _, rule := range []struct {
		what string
		ok   bool
	}{
		{"version", got.Version == 3},
		{"signature algorithm", got.SignatureAlgorithm == x509.ECDSAWithSHA256},
		{"issuer", bytes.Equal(got.RawIssuer, ca.Cert.RawSubject) && bytes.Equal(got.AuthorityKeyId, ca.Cert.SubjectKeyId)},
		{"serial", got.SerialNumber.Cmp(want.SerialNumber) == 0},
		{"subject", got.Subject.CommonName == want.Subject.CommonName && len(got.Subject.Names) == 1},
		{"dates", got.NotBefore.Equal(want.NotBefore) && got.NotAfter.Equal(want.NotAfter) && !got.NotAfter.After(ca.Cert.NotAfter)},
		{"public key", pub.Equal(got.PublicKey)},
		{"key usage", got.KeyUsage == x509.KeyUsageDigitalSignature && critical(got, oidKeyUsage)},
		{"extended key usage", slices.Equal(got.ExtKeyUsage, want.ExtKeyUsage) && len(got.ExtKeyUsage) == 1 && len(got.UnknownExtKeyUsage) == 0},
		{"CA flag", !got.IsCA},
		{"DNS names", slices.Equal(got.DNSNames, want.DNSNames)},
		{"URIs", slices.EqualFunc(got.URIs, want.URIs, func(a, b *url.URL) bool { return a.String() == b.String() })},
		{"other names", len(got.IPAddresses) == 0 && len(got.EmailAddresses) == 0},
	} {
		if !rule.ok {
			return fmt.Errorf("the signed leaf breaks its profile: %s", rule.what)
		}
	}
	return nil
}

var oidKeyUsage = []int{2, 5, 29, 15}

func critical(c *x509.Certificate, oid []int) bool {
	for _, e := range c.Extensions {
		if e.Id.Equal(oid) {
			return e.Critical
		}
	}
	return false
}
