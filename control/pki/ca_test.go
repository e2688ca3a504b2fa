// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package pki_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/pki"
)

// What is written by hand is what the standard library writes.
func TestCertPEM(t *testing.T) {
	der := make([]byte, 200)
	_, _ = rand.Read(der)
	for n := range len(der) {
		want := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der[:n]}))
		require.Equal(t, want, pki.CertPEM(der[:n]), n)
	}
}

func TestSPKIHash(t *testing.T) {
	key := &newKey(t).PublicKey
	der, err := x509.MarshalPKIXPublicKey(key)
	require.NoError(t, err)
	sum := sha256.Sum256(der)
	hash, err := pki.SPKIHash(key)
	require.NoError(t, err)
	assert.Equal(t, hex.EncodeToString(sum[:]), hash)

	other, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	require.NoError(t, err)
	_, err = pki.SPKIHash(&other.PublicKey)
	require.Error(t, err)
}
