// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"time"

	"golang.org/x/crypto/cryptobyte"
	tags "golang.org/x/crypto/cryptobyte/asn1"
)

// leafBytes is room for nearly every leaf.
const leafBytes = 1024

// SignLeaf signs a leaf whose template is one of [Template], for a public key in
// its X.509 form. It is [Sign] for what leaves have and nothing else, byte for
// byte, without the cost of encoding by reflection.
func SignLeaf(t *x509.Certificate, spki []byte, ca *CA) ([]byte, error) {
	b := cryptobyte.NewBuilder(make([]byte, 0, leafBytes))
	b.AddASN1(tags.SEQUENCE, func(b *cryptobyte.Builder) { addLeaf(b, t, spki, ca) })
	tbs, err := b.Bytes()
	if err != nil {
		return nil, fmt.Errorf("encoding a leaf: %w", err)
	}
	digest := sha256.Sum256(tbs)
	signature, err := ca.Key.Sign(nil, digest[:], crypto.SHA256)
	if err != nil {
		return nil, fmt.Errorf("signing a leaf: %w", err)
	}
	// As crypto/x509 does: a faulty signature must not leave, it could tell the key.
	if !ecdsa.VerifyASN1(&ca.Key.PublicKey, digest[:], signature) {
		return nil, errors.New("signing a leaf: the signature is wrong")
	}
	out := cryptobyte.NewBuilder(make([]byte, 0, leafBytes))
	out.AddASN1(tags.SEQUENCE, func(b *cryptobyte.Builder) {
		b.AddBytes(tbs)
		addECDSAWithSHA256(b)
		b.AddASN1BitString(signature)
	})
	der, err := out.Bytes()
	if err != nil {
		return nil, fmt.Errorf("encoding a leaf: %w", err)
	}
	return der, nil
}

var (
	oidECDSAWithSHA256 = asn1.ObjectIdentifier{1, 2, 840, 10045, 4, 3, 2}
	oidCommonName      = asn1.ObjectIdentifier{2, 5, 4, 3}
	oidExtKeyUsage     = asn1.ObjectIdentifier{2, 5, 29, 37}
	oidAuthorityKeyID  = asn1.ObjectIdentifier{2, 5, 29, 35}
	oidSubjectAltName  = asn1.ObjectIdentifier{2, 5, 29, 17}
	oidServerAuth      = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 1}
	oidClientAuth      = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 2}
)

// addLeaf adds what stands in a TBSCertificate (RFC 5280, section 4.1).
func addLeaf(b *cryptobyte.Builder, t *x509.Certificate, spki []byte, ca *CA) {
	b.AddASN1(tags.Tag(0).Constructed().ContextSpecific(), func(b *cryptobyte.Builder) { b.AddASN1Int64(2) }) // v3
	b.AddASN1BigInt(t.SerialNumber)
	addECDSAWithSHA256(b)
	b.AddBytes(ca.Cert.RawSubject)
	b.AddASN1(tags.SEQUENCE, func(b *cryptobyte.Builder) {
		addTime(b, t.NotBefore)
		addTime(b, t.NotAfter)
	})
	b.AddASN1(tags.SEQUENCE, func(b *cryptobyte.Builder) {
		b.AddASN1(tags.SET, func(b *cryptobyte.Builder) {
			b.AddASN1(tags.SEQUENCE, func(b *cryptobyte.Builder) {
				b.AddASN1ObjectIdentifier(oidCommonName)
				addBytes(b, tags.PrintableString, t.Subject.CommonName) // ids are labels
			})
		})
	})
	b.AddBytes(spki)
	b.AddASN1(tags.Tag(3).Constructed().ContextSpecific(), func(b *cryptobyte.Builder) {
		b.AddASN1(tags.SEQUENCE, func(b *cryptobyte.Builder) { addExtensions(b, t, ca) })
	})
}

// addExtensions adds the extensions of a leaf, in the order of crypto/x509.
func addExtensions(b *cryptobyte.Builder, t *x509.Certificate, ca *CA) {
	addExtension(b, oidKeyUsage, true, func(b *cryptobyte.Builder) {
		b.AddASN1(tags.BIT_STRING, func(b *cryptobyte.Builder) { b.AddBytes([]byte{7, 0x80}) }) // digitalSignature
	})
	addExtension(b, oidExtKeyUsage, false, func(b *cryptobyte.Builder) {
		b.AddASN1(tags.SEQUENCE, func(b *cryptobyte.Builder) {
			switch t.ExtKeyUsage[0] {
			case x509.ExtKeyUsageServerAuth:
				b.AddASN1ObjectIdentifier(oidServerAuth)
			case x509.ExtKeyUsageClientAuth:
				b.AddASN1ObjectIdentifier(oidClientAuth)
			}
		})
	})
	addExtension(b, oidAuthorityKeyID, false, func(b *cryptobyte.Builder) {
		b.AddASN1(tags.SEQUENCE, func(b *cryptobyte.Builder) {
			addBytes(b, tags.Tag(0).ContextSpecific(), string(ca.Cert.SubjectKeyId))
		})
	})
	addExtension(b, oidSubjectAltName, false, func(b *cryptobyte.Builder) {
		b.AddASN1(tags.SEQUENCE, func(b *cryptobyte.Builder) {
			for _, name := range t.DNSNames {
				addBytes(b, tags.Tag(2).ContextSpecific(), name)
			}
			for _, uri := range t.URIs {
				addBytes(b, tags.Tag(6).ContextSpecific(), uri.String())
			}
		})
	})
}

func addExtension(b *cryptobyte.Builder, id asn1.ObjectIdentifier, critical bool, value cryptobyte.BuilderContinuation) {
	b.AddASN1(tags.SEQUENCE, func(b *cryptobyte.Builder) {
		b.AddASN1ObjectIdentifier(id)
		if critical {
			b.AddASN1Boolean(true)
		}
		b.AddASN1(tags.OCTET_STRING, value)
	})
}

func addBytes(b *cryptobyte.Builder, tag tags.Tag, value string) {
	b.AddASN1(tag, func(b *cryptobyte.Builder) { b.AddBytes([]byte(value)) })
}

func addECDSAWithSHA256(b *cryptobyte.Builder) {
	b.AddASN1(tags.SEQUENCE, func(b *cryptobyte.Builder) { b.AddASN1ObjectIdentifier(oidECDSAWithSHA256) })
}

// addTime adds a time in the form that RFC 5280 demands of its year.
func addTime(b *cryptobyte.Builder, t time.Time) {
	if t.Year() < 2050 {
		b.AddASN1UTCTime(t)
	} else {
		b.AddASN1GeneralizedTime(t)
	}
}
