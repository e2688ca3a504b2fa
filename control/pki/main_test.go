// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package pki_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ikhnos/continuum/control/pki"
	"github.com/ikhnos/continuum/internal/controlapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

func newKey(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(tb, err)
	return key
}

func newCSR(tb testing.TB, key any) string {
	tb.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	require.NoError(tb, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}

func newCA(tb testing.TB, operatorID string) *pki.CA {
	tb.Helper()
	ca, err := pki.NewOperatorCA(operatorID, now)
	require.NoError(tb, err)
	return ca
}

// senderRecord is the record of a leaf of cluster c1 at op-a.
func senderRecord() pki.Record {
	return pki.Record{
		OperatorID: "op-a", Serial: "2a00ff00aa00112233445566778899aabbccddee", Role: controlapi.RoleSender,
		Kind: controlapi.KindCluster, HolderID: "c1", Holder: "op-a-export-c1",
		NotBefore: now.Add(-10 * time.Minute), NotAfter: now.Add(30 * day),
	}
}

func receiverRecord() pki.Record {
	r := senderRecord()
	r.Role, r.Kind, r.HolderID, r.Holder = controlapi.RoleReceiver, controlapi.KindOperator, "op-a", "op-a"
	return r
}

// sign makes a checked leaf of a record.
func sign(tb testing.TB, ca *pki.CA, r pki.Record, pub *ecdsa.PublicKey) *x509.Certificate {
	tb.Helper()
	t, err := pki.Template(r, false)
	require.NoError(tb, err)
	der, err := pki.Sign(t, pub, ca)
	require.NoError(tb, err)
	require.NoError(tb, pki.Check(der, t, pub, ca))
	leaf, err := x509.ParseCertificate(der)
	require.NoError(tb, err)
	return leaf
}

// openssl runs the openssl program in a folder with the given files and returns
// what it printed; a program that is not there skips the test.
func openssl(t *testing.T, files map[string]string, args ...string) (string, error) {
	t.Helper()
	program, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("there is no openssl on this machine")
	}
	dir := t.TempDir()
	for name, content := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}
