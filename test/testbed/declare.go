// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/cli/apiclient"
	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/controlclient"
)

// Org is the organisation that a new server has and that everything here is in.
const Org = "default"

// Central declares a central operator.
func (s *Server) Central(id string) {
	s.t.Helper()
	_, err := s.API.PutOperator(s.t.Context(), id, operators.OperatorRequest{Name: id, Role: operators.RoleCentral})
	require.NoError(s.t, err)
}

// Regional declares a regional operator, with a central operator's id as its
// destination; "" is for one whose destination the control server does not manage.
func (s *Server) Regional(id, central string) {
	s.t.Helper()
	destination := &operators.Destination{Kind: operators.DestinationOTLP, Endpoint: "store.example.com:4317"}
	if central != "" {
		destination = &operators.Destination{Kind: operators.DestinationOperator, OperatorID: central}
	}
	_, err := s.API.PutOperator(s.t.Context(), id, operators.OperatorRequest{Name: id, Role: operators.RoleRegional, Destination: destination})
	require.NoError(s.t, err)
}

// Sender registers and approves a cluster and connects it to an operator.
func (s *Server) Sender(operatorID, clusterID string) {
	s.t.Helper()
	ctx := s.t.Context()
	_, err := s.API.PutCluster(ctx, clusterID, operators.ClusterRequest{Kind: operators.ClusterHost})
	require.NoError(s.t, err)
	_, err = s.API.ApproveCluster(ctx, clusterID)
	require.NoError(s.t, err)
	_, err = s.API.ConnectSender(ctx, operatorID, clusterID, "")
	require.NoError(s.t, err)
}

// Token mints an enrolment token of an hour: of a sender, or with sender "" of the
// operator's receiver.
func (s *Server) Token(operatorID, sender string) string {
	s.t.Helper()
	token, err := s.API.CreateToken(s.t.Context(), operatorID, roleOf(sender), sender, time.Hour)
	require.NoError(s.t, err)
	return token.Token
}

// TokenFile mints a token into a file, over what the file held.
func (s *Server) TokenFile(path, operatorID, sender string) {
	s.t.Helper()
	require.NoError(s.t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(s.t, os.WriteFile(path, []byte(s.Token(operatorID, sender)+"\n"), 0o600))
}

func roleOf(sender string) controlapi.Role {
	if sender == "" {
		return controlapi.RoleReceiver
	}
	return controlapi.RoleSender
}

// Entries is what the ledger has of an operator, newest first; of holder alone
// unless that is "". A receiver's holder is the operator's id, a sender's its whole
// name.
func (s *Server) Entries(operatorID, holder string) []ledger.Entry {
	s.t.Helper()
	entries, err := s.API.Certificates(s.t.Context(), apiclient.CertificateFilter{Operator: operatorID, Holder: holder})
	require.NoError(s.t, err)
	return entries
}

// Leaf is a certificate with its key and the operator's CA, enrolled without a
// collector.
type Leaf struct {
	*controlapi.Certificate
	Cert   *x509.Certificate
	Key    *ecdsa.PrivateKey
	KeyPEM []byte
	TLS    tls.Certificate
}

// Enroll mints a token and spends it: for a sender, or with sender "" for the
// operator's receiver.
func (s *Server) Enroll(operatorID, sender string) *Leaf {
	s.t.Helper()
	key, csr := NewRequest(s.t)
	answer, err := s.Client().Enroll(s.t.Context(), s.Token(operatorID, sender), csr)
	require.NoError(s.t, err)
	return newLeaf(s.t, answer, key)
}

// Renew gets the successor of a leaf by its holder's proof, for a new key.
func (s *Server) Renew(l *Leaf) *Leaf {
	s.t.Helper()
	key, csr := NewRequest(s.t)
	answer, err := s.Client().Renew(s.t.Context(), l.Holder(), csr)
	require.NoError(s.t, err)
	return newLeaf(s.t, answer, key)
}

// NewRequest is a new key and a certificate request for it, in PEM. It asks for a
// name, which no certificate gets.
func NewRequest(t testing.TB) (*ecdsa.PrivateKey, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "ignored"}}, key)
	require.NoError(t, err)
	return key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func newLeaf(t testing.TB, answer *controlapi.Certificate, key *ecdsa.PrivateKey) *Leaf {
	t.Helper()
	block, _ := pem.Decode([]byte(answer.Certificate))
	require.NotNil(t, block)
	cert, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return &Leaf{
		Certificate: answer, Cert: cert, Key: key,
		KeyPEM: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
		TLS:    tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: key, Leaf: cert},
	}
}

// Holder proves itself with the leaf.
func (l *Leaf) Holder() controlclient.Holder {
	return controlclient.Holder{Key: l.Key, Leaf: l.Cert.Raw}
}

// ClientTLS dials a receiver of the operator that issued the leaf.
func (l *Leaf) ClientTLS(serverName string) *tls.Config {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(l.CA))
	return &tls.Config{
		RootCAs: roots, ServerName: serverName, MinVersion: tls.VersionTLS13,
		Certificates: []tls.Certificate{l.TLS},
	}
}

// WriteDir writes tls.crt, tls.key and ca.crt into a folder, over what is there,
// each by a rename.
func (l *Leaf) WriteDir(t testing.TB, dir string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o700))
	WriteFile(t, filepath.Join(dir, "tls.crt"), []byte(l.Certificate.Certificate))
	WriteFile(t, filepath.Join(dir, "tls.key"), l.KeyPEM)
	WriteFile(t, filepath.Join(dir, "ca.crt"), []byte(l.CA))
}

// WriteFile replaces a file by a rename, 0600, so that a reader sees the old
// content or the new.
func WriteFile(t testing.TB, path string, content []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(path+".new", content, 0o600))
	require.NoError(t, os.Rename(path+".new", path))
}
