// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package pki_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/pki"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// secp256k1CSR was made with openssl; crypto/x509 does not know its curve.
const secp256k1CSR = `-----BEGIN CERTIFICATE REQUEST-----
MIHCMGsCAQAwDDEKMAgGA1UEAwwBeDBWMBAGByqGSM49AgEGBSuBBAAKA0IABEka
NI974uTjw8GG+k0ZXWdWs6WDO1nYQyFFELylG/dJvt7YaL1Tz5nMPB8YGxAP0tCW
ehDvTn1RmzxLlufydeigADAKBggqhkjOPQQDAgNHADBEAiEA07wkxKkydiP715Af
JROXwl6kO5FOqiWvCQAFIIFdwpcCH1gqN1iFZ4C+RI7DB8M5J9W23j3Z99DJin3q
NlJgrxA=
-----END CERTIFICATE REQUEST-----
`

// trap-16 for requests: white space and line ends do not matter, more blocks do.
func TestParseCSR(t *testing.T) {
	key := newKey(t)
	good := newCSR(t, key)
	block, _ := pem.Decode([]byte(good))
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	require.NoError(t, err)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	named, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: []string{"admin.example.com"}}, key)
	require.NoError(t, err)
	forged := append([]byte{}, block.Bytes...)
	forged[len(forged)-1] ^= 1
	text := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	const request = "CERTIFICATE REQUEST"
	for _, test := range []struct {
		name, csr string
		reason    controlapi.Reason
	}{
		{"good", good, ""},
		{"names in it do not count", text(request, named), ""},
		{"white space around", "\n  " + good + "\n\n", ""},
		{"CRLF", strings.ReplaceAll(good, "\n", "\r\n"), ""},
		{"byte order mark", "\uFEFF" + good, ""},
		{"no last line end", strings.TrimSpace(good), ""},
		{"empty", "", controlapi.ReasonCSRInvalid},
		{"no PEM", "hello", controlapi.ReasonCSRInvalid},
		{"two requests", good + good, controlapi.ReasonCSRInvalid},
		{"text before", "hello\n" + good, controlapi.ReasonCSRInvalid},
		{"text after", good + "hello", controlapi.ReasonCSRInvalid},
		{"old block name", text("NEW CERTIFICATE REQUEST", block.Bytes), controlapi.ReasonCSRInvalid},
		{"a certificate", text("CERTIFICATE", block.Bytes), controlapi.ReasonCSRInvalid},
		{"headers", strings.Replace(good, "REQUEST-----\n", "REQUEST-----\nA: b\n\n", 1), controlapi.ReasonCSRInvalid},
		{"too large", good + strings.Repeat("\n", 16<<10), controlapi.ReasonCSRInvalid},
		{"not PKCS 10", text(request, []byte("hello")), controlapi.ReasonCSRInvalid},
		{"bytes after", text(request, append(block.Bytes[:len(block.Bytes):len(block.Bytes)], 0)), controlapi.ReasonCSRInvalid},
		{"forged", text(request, forged), controlapi.ReasonCSRInvalid},
		{"P-384", newCSR(t, p384), controlapi.ReasonKeyUnsupported},
		{"RSA", newCSR(t, rsaKey), controlapi.ReasonKeyUnsupported},
		{"Ed25519", newCSR(t, edKey), controlapi.ReasonKeyUnsupported},
		{"secp256k1", secp256k1CSR, controlapi.ReasonKeyUnsupported},
	} {
		t.Run(test.name, func(t *testing.T) {
			pub, err := pki.ParseCSR(test.csr)
			if test.reason == "" {
				require.NoError(t, err)
				assert.True(t, key.PublicKey.Equal(pub))
				return
			}
			var problem *controlapi.Problem
			require.ErrorAs(t, err, &problem)
			assert.Equal(t, test.reason, problem.Reason)
			assert.Equal(t, 422, problem.Status)
		})
	}
}

func FuzzParseCSR(f *testing.F) {
	good := newCSR(f, newKey(f))
	for _, seed := range []string{good, secp256k1CSR, good + good, "-----BEGIN CERTIFICATE REQUEST-----\n-----END CERTIFICATE REQUEST-----", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		pub, err := pki.ParseCSR(text)
		if err != nil {
			var problem *controlapi.Problem
			require.ErrorAs(t, err, &problem)
			return
		}
		require.Equal(t, elliptic.P256(), pub.Curve)
		_, err = pki.SPKIHash(pub)
		require.NoError(t, err)
	})
}
