// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/pki"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/identity"
	"github.com/ikhnos/continuum/internal/testpki"
	"github.com/ikhnos/continuum/test/testbed"
)

// matrixCA is an operator's CA of the server's signing code, with dates as a test
// wants them.
type matrixCA struct {
	*pki.CA
	operatorID string
}

func newMatrixCA(t testing.TB, operatorID string) *matrixCA {
	t.Helper()
	ca, err := pki.NewOperatorCA(operatorID, time.Now().AddDate(0, 0, -60))
	require.NoError(t, err)
	return &matrixCA{ca, operatorID}
}

func (ca *matrixCA) pem() []byte { return testpki.CertPEM(ca.Cert.Raw) }

// matrixLeaf is a leaf with the CA that its directory names as ca.crt: its own one
// unless a row changes that.
type matrixLeaf struct {
	t     testing.TB
	cert  *x509.Certificate
	key   *ecdsa.PrivateKey
	trust []byte
}

func (ca *matrixCA) sender(t testing.TB, holderID string, from, to time.Time) *matrixLeaf {
	t.Helper()
	return ca.issue(t, pki.Record{
		Role: controlapi.RoleSender, Kind: controlapi.KindCluster, HolderID: holderID,
		Holder: identity.SenderName(ca.operatorID, holderID), NotBefore: from, NotAfter: to,
	})
}

func (ca *matrixCA) receiver(t testing.TB) *matrixLeaf {
	t.Helper()
	return ca.issue(t, pki.Record{
		Role: controlapi.RoleReceiver, Kind: controlapi.KindOperator, Holder: ca.operatorID,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	})
}

// issue makes a key and signs what the record says for it, as the server does.
func (ca *matrixCA) issue(t testing.TB, r pki.Record) *matrixLeaf {
	t.Helper()
	r.OperatorID = ca.operatorID
	r.Serial = hex.EncodeToString(pki.NewSerial().FillBytes(make([]byte, 20)))
	r.NotBefore, r.NotAfter = r.NotBefore.Truncate(time.Second), r.NotAfter.Truncate(time.Second)
	template, err := pki.Template(r, false)
	require.NoError(t, err)
	key := testpki.NewKey(t)
	der, err := pki.Sign(template, &key.PublicKey, ca.CA)
	require.NoError(t, err)
	require.NoError(t, pki.Check(der, template, &key.PublicKey, ca.CA))
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return &matrixLeaf{t: t, cert: cert, key: key, trust: ca.pem()}
}

// write puts the three files into a folder, over those that are there; ca.crt only
// the first time, because a renewal keeps it.
func (l *matrixLeaf) write(dir string) {
	l.t.Helper()
	require.NoError(l.t, os.MkdirAll(dir, 0o700))
	testbed.WriteFile(l.t, filepath.Join(dir, "tls.key"), testpki.KeyPEM(l.t, l.key))
	testbed.WriteFile(l.t, filepath.Join(dir, "tls.crt"), testpki.CertPEM(l.cert.Raw))
	if _, err := os.Stat(filepath.Join(dir, "ca.crt")); os.IsNotExist(err) {
		testbed.WriteFile(l.t, filepath.Join(dir, "ca.crt"), l.trust)
	}
}

// clientTLS dials the receiver and notes every handshake.
func (l *matrixLeaf) clientTLS(server *matrixCA, seen *handshakes) *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(server.Cert)
	return &tls.Config{
		RootCAs: roots, ServerName: identity.StableName(server.operatorID), MinVersion: tls.VersionTLS13,
		Certificates:     []tls.Certificate{{Certificate: [][]byte{l.cert.Raw}, PrivateKey: l.key}},
		VerifyConnection: seen.note,
	}
}

// handshakes are the serials of the server certificates that connections met.
type handshakes struct {
	mu   sync.Mutex
	seen []string
}

func (h *handshakes) note(state tls.ConnectionState) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen = append(h.seen, state.PeerCertificates[0].SerialNumber.String())
	return nil
}

func (h *handshakes) serials() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.seen)
}
