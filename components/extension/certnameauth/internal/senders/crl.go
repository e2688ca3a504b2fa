// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package senders

import (
	"bytes"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// CRL is a verified revocation list (RFC 5280). A nil CRL revokes nothing.
type CRL struct {
	Number     *big.Int // nil when the list carries none
	NextUpdate time.Time

	issuer []byte
	serial map[Serial]struct{}
}

var (
	errCRLForm    = errors.New("neither a DER revocation list nor a PEM block X509 CRL")
	errCRLIssuer  = errors.New("not signed by a certificate of crl::ca_file")
	errCRLPartial = errors.New("a delta or partial list, which alone says too little")
	errCAForm     = errors.New("no PEM block CERTIFICATE")
)

// Extensions that make a list say less than it seems to.
var (
	oidDelta        = asn1.ObjectIdentifier{2, 5, 29, 27}
	oidDistribution = asn1.ObjectIdentifier{2, 5, 29, 28}
)

const reasonRemoveFromCRL = 8

// ParseCRL reads one list, DER or PEM, and checks it against the certificates in
// caPEM. A list whose next update has passed is good all the same: what it
// revokes stays revoked.
func ParseCRL(data, caPEM []byte) (*CRL, error) {
	if block, _ := pem.Decode(data); block != nil {
		if block.Type != "X509 CRL" {
			return nil, errCRLForm
		}
		data = block.Bytes
	}
	parsed, err := x509.ParseRevocationList(data)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errCRLForm, err)
	}
	cas, err := ParseCertificates(caPEM)
	if err != nil {
		return nil, fmt.Errorf("reading crl::ca_file: %w", err)
	}
	if !signedByAny(parsed, cas) {
		return nil, errCRLIssuer
	}
	for _, extension := range parsed.Extensions {
		if extension.Id.Equal(oidDelta) || extension.Id.Equal(oidDistribution) && extension.Critical {
			return nil, errCRLPartial
		}
	}
	crl := &CRL{
		Number: parsed.Number, NextUpdate: parsed.NextUpdate, issuer: parsed.RawIssuer,
		serial: make(map[Serial]struct{}, len(parsed.RevokedCertificateEntries)),
	}
	for i := range parsed.RevokedCertificateEntries {
		if entry := &parsed.RevokedCertificateEntries[i]; entry.ReasonCode != reasonRemoveFromCRL {
			crl.serial[SerialOf(entry.SerialNumber)] = struct{}{}
		}
	}
	return crl, nil
}

func signedByAny(list *x509.RevocationList, cas []*x509.Certificate) bool {
	for _, ca := range cas {
		if bytes.Equal(ca.RawSubject, list.RawIssuer) && list.CheckSignatureFrom(ca) == nil {
			return true
		}
	}
	return false
}

// ParseCertificates reads all certificates of a PEM file; other blocks and text
// between them are skipped.
func ParseCertificates(data []byte) ([]*x509.Certificate, error) {
	var certs []*x509.Certificate
	for {
		var block *pem.Block
		block, data = pem.Decode(data)
		if block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("parsing a certificate: %w", err)
		}
		certs = append(certs, cert)
	}
	if len(certs) == 0 {
		return nil, errCAForm
	}
	return certs, nil
}

// Revokes says whether the list names a certificate of its own issuer.
func (c *CRL) Revokes(rawIssuer []byte, serial Serial) bool {
	if c == nil {
		return false
	}
	_, ok := c.serial[serial]
	return ok && bytes.Equal(rawIssuer, c.issuer)
}

// Len is the number of revoked certificates.
func (c *CRL) Len() int {
	if c == nil {
		return 0
	}
	return len(c.serial)
}

// Regresses says whether next is older than c by their numbers. Once a list had a
// number, one without is older.
func (c *CRL) Regresses(next *CRL) bool {
	return c != nil && c.Number != nil && (next.Number == nil || next.Number.Cmp(c.Number) < 0)
}
