// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package testpki

import (
	"crypto/x509"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/internal/controlapi"
)

// PK-2, PK-3: what the tests sign verifies under the profile that operators have.
func TestLeavesVerify(t *testing.T) {
	ca := NewCA(t, "op-abc")
	require.Equal(t, ca.Cert.SubjectKeyId, ca.Cert.AuthorityKeyId)
	require.True(t, ca.Cert.MaxPathLenZero)

	sender := ca.Sender(t, controlapi.KindCluster, "c1")
	_, err := sender.Cert.Verify(x509.VerifyOptions{Roots: ca.Pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	require.NoError(t, err)
	require.Equal(t, "spiffe://op-abc.ikhnos/cluster/c1", sender.Cert.URIs[0].String())

	_, err = ca.Receiver(t).Cert.Verify(x509.VerifyOptions{Roots: ca.Pool(), DNSName: "localhost"})
	require.NoError(t, err)
}

func TestForeignTrustDomainIsRefused(t *testing.T) {
	ca := NewCA(t, "op-abc")
	other := NewCA(t, "op-xyz").Sender(t, controlapi.KindCluster, "c1")
	forged := ca.Sender(t, controlapi.KindCluster, "c1", func(c *x509.Certificate) { c.URIs = other.Cert.URIs })
	_, err := forged.Cert.Verify(x509.VerifyOptions{Roots: ca.Pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	require.Error(t, err)
}

func TestOptions(t *testing.T) {
	ca := NewCA(t, "op-abc")
	key := NewKey(t)
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	leaf := ca.Receiver(t, ForKey(key.Public()), Between(from, from.Add(time.Minute)), WithUsage(x509.ExtKeyUsageClientAuth))
	require.Equal(t, key.Public(), leaf.Cert.PublicKey)
	require.Nil(t, leaf.Key)
	require.Equal(t, from.Add(time.Minute), leaf.Cert.NotAfter)
	require.Equal(t, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, leaf.Cert.ExtKeyUsage)
	require.Len(t, ca.SPKIHash(), 32)

	dir := t.TempDir()
	ca.Receiver(t).WriteDir(t, dir, ca)
	require.FileExists(t, dir+"/tls.key")
}
