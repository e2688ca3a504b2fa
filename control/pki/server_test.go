// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package pki_test

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/pki"
)

func TestServerCertificate(t *testing.T) {
	ca, err := pki.NewServerCA(now)
	require.NoError(t, err)
	assert.Equal(t, now.AddDate(20, 0, 0), ca.Cert.NotAfter)
	assert.True(t, ca.Cert.IsCA && ca.Cert.MaxPathLenZero)
	hash, err := pki.SPKIHash(&ca.Key.PublicKey)
	require.NoError(t, err)
	assert.Equal(t, "sha256:"+hash, pki.Pin(ca.Cert))

	leaf, err := pki.NewServerLeaf(ca, []string{"ikhnos.example.com", "localhost", "127.0.0.1", "::1"}, now, 90*day)
	require.NoError(t, err)
	assert.Equal(t, now.Add(90*day), leaf.Leaf.NotAfter)
	server, client := net.Pipe()
	t.Cleanup(func() { assert.NoError(t, server.Close()); assert.NoError(t, client.Close()) })
	done := make(chan error, 1)
	go func() {
		done <- tls.Server(server, &tls.Config{Certificates: []tls.Certificate{*leaf}, Time: func() time.Time { return now }}).Handshake()
	}()
	roots := x509.NewCertPool()
	roots.AddCert(ca.Cert)
	conn := tls.Client(client, &tls.Config{RootCAs: roots, ServerName: "127.0.0.1", Time: func() time.Time { return now }})
	require.NoError(t, conn.Handshake())
	require.NoError(t, <-done)
	presented := conn.ConnectionState().PeerCertificates
	require.Len(t, presented, 2, "the pinned CA is presented")
	assert.Equal(t, pki.Pin(ca.Cert), pki.Pin(presented[1]))

	late, err := pki.NewServerLeaf(ca, []string{"localhost"}, ca.Cert.NotAfter.Add(-time.Hour), 90*day)
	require.NoError(t, err)
	assert.Equal(t, ca.Cert.NotAfter, late.Leaf.NotAfter)
	_, err = pki.NewServerLeaf(ca, nil, now, day)
	require.Error(t, err)
}
