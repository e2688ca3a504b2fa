// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"strings"

	"github.com/ikhnos/continuum/internal/controlapi"
)

var (
	oidECPublicKey = asn1.ObjectIdentifier{1, 2, 840, 10045, 2, 1}
	oidP256        = asn1.ObjectIdentifier{1, 2, 840, 10045, 3, 1, 7}
)

// ParseCSR reads one PEM block CERTIFICATE REQUEST of at most 16 KiB and returns
// its key, all that counts of it. Errors are problems csr_invalid and, for
// another key than P-256, key_unsupported; they never repeat input.
func ParseCSR(text string) (*ecdsa.PublicKey, error) {
	if len(text) > controlapi.MaxCSRBytes {
		return nil, csrInvalid("The certificate request is larger than 16 KiB.")
	}
	text = strings.TrimSpace(strings.TrimPrefix(text, "\uFEFF"))
	if !strings.HasPrefix(text, "-----BEGIN CERTIFICATE REQUEST-----") {
		return nil, csrInvalid("The certificate request does not start as one PEM block CERTIFICATE REQUEST.")
	}
	if strings.Count(text, "-----BEGIN") != 1 {
		return nil, csrInvalid("There is more than one PEM block.")
	}
	block, rest := pem.Decode([]byte(text))
	if block == nil || len(block.Headers) != 0 || len(rest) != 0 {
		return nil, csrInvalid("The certificate request is not exactly one PEM block without headers.")
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		if !maybeP256(block.Bytes) {
			return nil, errKeyUnsupported()
		}
		return nil, csrInvalid("The certificate request is not valid PKCS #10.")
	}
	pub, ok := csr.PublicKey.(*ecdsa.PublicKey)
	if !ok || pub.Curve != elliptic.P256() {
		return nil, errKeyUnsupported()
	}
	if err := csr.CheckSignature(); err != nil {
		return nil, csrInvalid("The signature of the certificate request is not by its key.")
	}
	return pub, nil
}

func errKeyUnsupported() error {
	return controlapi.NewProblem(controlapi.ReasonKeyUnsupported, "The key of the certificate request is not ECDSA P-256.")
}

func csrInvalid(detail string) error {
	return controlapi.NewProblem(controlapi.ReasonCSRInvalid, detail)
}

// maybeP256 reports false when der is a request for another kind of key, also of
// a kind that crypto/x509 cannot read and would call malformed.
func maybeP256(der []byte) bool {
	var csr struct {
		TBS struct {
			Version int
			Subject asn1.RawValue
			Key     struct {
				Algorithm pkix.AlgorithmIdentifier
				Bits      asn1.BitString
			}
			Attributes asn1.RawValue `asn1:"optional,tag:0"`
		}
		Algorithm pkix.AlgorithmIdentifier
		Signature asn1.BitString
	}
	if _, err := asn1.Unmarshal(der, &csr); err != nil {
		return true // not a request at all: for the real parser to say
	}
	alg := csr.TBS.Key.Algorithm
	if !alg.Algorithm.Equal(oidECPublicKey) {
		return false
	}
	var curve asn1.ObjectIdentifier
	_, err := asn1.Unmarshal(alg.Parameters.FullBytes, &curve)
	return err == nil && curve.Equal(oidP256)
}
