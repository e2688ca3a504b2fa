// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package pki_test

import (
	"crypto/x509"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/pki"
)

// TestRecognize: a leaf gives back the record that it was made of, and nothing
// else passes for one.
func TestRecognize(t *testing.T) {
	ca, key := newCA(t, "op-a"), newKey(t)
	for _, want := range []pki.Record{senderRecord(), receiverRecord()} {
		leaf := sign(t, ca, want, &key.PublicKey)
		got, issuedAt, spki, err := pki.Recognize(leaf.Raw, "op-a", ca.Cert)
		require.NoError(t, err)
		assert.Equal(t, now, issuedAt)
		assert.Equal(t, now.Add(10*day), got.RenewAfter)
		assert.Equal(t, now.Add(12*day), got.RenewBy)
		got.RenewAfter, got.RenewBy = time.Time{}, time.Time{}
		assert.Equal(t, want, got)
		hash, err := pki.SPKIHash(&key.PublicKey)
		require.NoError(t, err)
		assert.Equal(t, hash, spki)

		_, _, _, err = pki.Recognize(leaf.Raw, "op-b", ca.Cert)
		require.Error(t, err, "another operator's")
		_, _, _, err = pki.Recognize(leaf.Raw, "op-a", newCA(t, "op-a").Cert)
		require.Error(t, err, "another CA's")
	}
	for name, edit := range map[string]func(*x509.Certificate){
		"another name":   func(c *x509.Certificate) { c.Subject.CommonName = "op-a-export-c2" },
		"two DNS names":  func(c *x509.Certificate) { c.DNSNames = append(c.DNSNames, "x") },
		"no URI":         func(c *x509.Certificate) { c.URIs = nil },
		"both usages":    func(c *x509.Certificate) { c.ExtKeyUsage = append(c.ExtKeyUsage, x509.ExtKeyUsageServerAuth) },
		"past the CA":    func(c *x509.Certificate) { c.NotAfter = ca.Cert.NotAfter.Add(time.Second) },
		"not its usages": func(c *x509.Certificate) { c.KeyUsage |= x509.KeyUsageCertSign },
	} {
		template, err := pki.Template(senderRecord(), false)
		require.NoError(t, err)
		edit(template)
		der, err := pki.Sign(template, &key.PublicKey, ca)
		require.NoError(t, err)
		_, _, _, err = pki.Recognize(der, "op-a", ca.Cert)
		assert.Error(t, err, name)
	}
	_, _, _, err := pki.Recognize([]byte("x"), "op-a", ca.Cert)
	require.Error(t, err)
}

// FuzzRecognize: no bytes make it panic, and only what the CA signed passes.
func FuzzRecognize(f *testing.F) {
	ca, err := pki.NewOperatorCA("op-a", now)
	require.NoError(f, err)
	key := newKey(f)
	leaf := sign(f, ca, senderRecord(), &key.PublicKey)
	f.Add(leaf.Raw)
	f.Add(ca.Cert.Raw)
	f.Fuzz(func(t *testing.T, der []byte) {
		rec, _, _, err := pki.Recognize(der, "op-a", ca.Cert)
		if err == nil && rec.Serial != senderRecord().Serial {
			t.Fatalf("took a leaf that was never signed: %x", der)
		}
	})
}
