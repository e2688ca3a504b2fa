// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certnameauth

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/extension/extensiontest"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"

	"github.com/ikhnos/continuum/components/extension/certnameauth/internal/metadata"
	"github.com/ikhnos/continuum/components/extension/certnameauth/internal/senders"
	"github.com/ikhnos/continuum/internal/testpki"
)

func nopSettings() extension.Settings { return extensiontest.NewNopSettings(metadata.Type) }

func crlDER(t testing.TB, ca *testpki.CA, number int64, nextUpdate time.Time, leaves ...*testpki.Leaf) []byte {
	t.Helper()
	list := &x509.RevocationList{Number: big.NewInt(number), ThisUpdate: time.Now().Add(-time.Hour), NextUpdate: nextUpdate}
	for _, leaf := range leaves {
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries,
			x509.RevocationListEntry{SerialNumber: leaf.Cert.SerialNumber, RevocationTime: time.Now()})
	}
	der, err := x509.CreateRevocationList(rand.Reader, list, ca.Cert, ca.Key)
	require.NoError(t, err)
	return der
}

func revoking(t testing.TB, ca *testpki.CA, leaves ...*testpki.Leaf) *senders.CRL {
	t.Helper()
	crl, err := senders.ParseCRL(crlDER(t, ca, 1, time.Now().Add(time.Hour), leaves...), ca.PEM)
	require.NoError(t, err)
	return crl
}

// LG-7, PK-21: a plain build with a static list and a revocation list.
func TestCRLFile(t *testing.T) {
	ca, foreign := testpki.NewCA(t, operatorID), testpki.NewCA(t, "op-other")
	dir := t.TempDir()
	cfg := staticConfig("c1", "c2")
	cfg.CRL = CRLConfig{File: filepath.Join(dir, "crl.der"), CAFile: filepath.Join(dir, "ca.crt")}
	require.NoError(t, os.WriteFile(cfg.CRL.CAFile, append(foreign.PEM, ca.PEM...), 0o600))
	one, two := sender(t, ca, "c1"), sender(t, ca, "c2")

	broken, err := newCertNameAuth(nopSettings(), cfg, time.Now)
	require.NoError(t, err)
	require.ErrorContains(t, broken.Start(context.Background(), componenttest.NewNopHost()), "reading the revocation list")
	require.NoError(t, broken.Shutdown(context.Background()))

	pastUpdate := crlDER(t, ca, 5, time.Now().Add(-time.Minute), one) // and good all the same
	require.NoError(t, os.WriteFile(cfg.CRL.File, pastUpdate, 0o600))
	r := newRig(t, ca, cfg, options{})
	heldOne, heldTwo := r.wires(one), r.wires(two)
	for i := range heldOne {
		requireRefused(t, heldOne[i].send(), "certificate_revoked", codes.PermissionDenied)
		requireAccepted(t, heldTwo[i].send())
	}
}

// A list that is broken, foreign or older changes nothing.
func TestCRLWatch(t *testing.T) {
	ca, foreign := testpki.NewCA(t, operatorID), testpki.NewCA(t, "op-other")
	dir := t.TempDir()
	one, two := sender(t, ca, "c1"), sender(t, ca, "c2")
	later := time.Now().Add(time.Hour)
	applied := 0
	var current *senders.CRL
	w := &crlWatch{
		cfg: CRLConfig{File: filepath.Join(dir, "crl"), CAFile: filepath.Join(dir, "ca.crt")}, logger: zap.NewNop(),
		health: &health{changed: newSignal()}, apply: func(crl *senders.CRL) { applied, current = applied+1, crl },
	}
	revokes := func(leaf *testpki.Leaf) bool {
		return current.Revokes(leaf.Cert.RawIssuer, senders.SerialOf(leaf.Cert.SerialNumber))
	}
	require.NoError(t, os.WriteFile(w.cfg.CAFile, ca.PEM, 0o600))
	for _, tt := range []struct {
		name    string
		data    []byte
		fault   string
		applied int
	}{
		{"first", crlDER(t, ca, 5, later, one), "", 1},
		{"same content", nil, "", 1},
		{"lower number", crlDER(t, ca, 4, later), "lower", 1},
		{"another CA", crlDER(t, foreign, 9, later), "not signed by", 1},
		{"broken", []byte("x"), "neither", 1},
		{"PEM with a higher number", pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: crlDER(t, ca, 6, later, two)}), "", 2},
	} {
		if tt.data != nil {
			require.NoError(t, os.WriteFile(w.cfg.File, tt.data, 0o600))
		}
		err := w.look()
		if tt.fault == "" {
			require.NoError(t, err, tt.name)
		} else {
			require.ErrorContains(t, err, tt.fault, tt.name)
		}
		require.Equal(t, tt.applied, applied, tt.name)
		require.Equal(t, applied == 1, revokes(one), tt.name)
	}
	assert.True(t, revokes(two))
	require.NoError(t, os.Remove(w.cfg.File))
	require.Error(t, w.look())
	assert.True(t, revokes(two))
}

func TestParseCRL(t *testing.T) {
	ca, foreign := testpki.NewCA(t, operatorID), testpki.NewCA(t, operatorID)
	leaf := sender(t, ca, "c1")
	later := time.Now().Add(time.Hour)
	_, err := senders.ParseCRL(crlDER(t, foreign, 1, later, leaf), ca.PEM)
	require.ErrorContains(t, err, "not signed by")
	_, err = senders.ParseCRL(ca.PEM, ca.PEM)
	require.ErrorContains(t, err, "neither a DER revocation list")
	_, err = senders.ParseCRL(crlDER(t, ca, 1, later), []byte("none"))
	require.ErrorContains(t, err, "no PEM block CERTIFICATE")

	crl := revoking(t, ca, leaf)
	assert.True(t, crl.Revokes(leaf.Cert.RawIssuer, senders.SerialOf(leaf.Cert.SerialNumber)))
	assert.False(t, crl.Revokes([]byte("another issuer"), senders.SerialOf(leaf.Cert.SerialNumber)))
	assert.Equal(t, 1, crl.Len())
}

// FuzzParseCRL: a file of any content gives a list or an error.
func FuzzParseCRL(f *testing.F) {
	ca := testpki.NewCA(f, operatorID)
	f.Add(crlDER(f, ca, 1, time.Now().Add(time.Hour)))
	f.Add([]byte("-----BEGIN X509 CRL-----\n-----END X509 CRL-----\n"))
	f.Fuzz(func(_ *testing.T, data []byte) { _, _ = senders.ParseCRL(data, ca.PEM) })
}
