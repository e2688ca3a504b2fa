// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package pki_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/hex"
	"math/big"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/pki"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// requireSameLeaf signs in both ways and compares every byte.
func requireSameLeaf(t *testing.T, ca *pki.CA, r pki.Record, localhost bool, pub *ecdsa.PublicKey) {
	t.Helper()
	template, err := pki.Template(r, localhost)
	require.NoError(t, err)
	want, err := pki.Sign(template, pub, ca)
	require.NoError(t, err)
	spki, err := x509.MarshalPKIXPublicKey(pub)
	require.NoError(t, err)
	got, err := pki.SignLeaf(template, spki, ca)
	require.NoError(t, err)
	require.Equal(t, hex.EncodeToString(want), hex.EncodeToString(got))
}

// PK-4, PK-20: SignLeaf writes what crypto/x509 does.
func TestSignLeafIsCreateCertificate(t *testing.T) {
	ca, pub := newCA(t, "op-a"), &newKey(t).PublicKey
	year := func(y int) time.Time { return time.Date(y, 12, 31, 23, 59, 59, 0, time.UTC) }
	for _, test := range []struct {
		name      string
		edit      func(*pki.Record)
		localhost bool
	}{
		{"sender", func(*pki.Record) {}, false},
		{"operator that sends", func(r *pki.Record) {
			r.Kind, r.HolderID, r.Holder = controlapi.KindOperator, "op-b", "op-a-export-op-b"
		}, false},
		{"receiver", func(r *pki.Record) { *r = receiverRecord() }, false},
		{"receiver of the demo", func(r *pki.Record) { *r = receiverRecord() }, true},
		{"short serial", func(r *pki.Record) { r.Serial = "01" }, false},
		{"serial with a high bit", func(r *pki.Record) { r.Serial = "ff" }, false},
		{"last second of UTCTime", func(r *pki.Record) { r.NotBefore, r.NotAfter = year(2049), year(2049) }, false},
		{"GeneralizedTime", func(r *pki.Record) { r.NotAfter = year(2050) }, false},
		{"longest name", func(r *pki.Record) { r.Holder = strings.Repeat("a", 63) }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := senderRecord()
			test.edit(&r)
			requireSameLeaf(t, ca, r, test.localhost, pub)
		})
	}
}

var label = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,29}[a-z0-9])?$`)

func FuzzSignLeaf(f *testing.F) {
	ca, err := pki.NewOperatorCA("op-a", now)
	require.NoError(f, err)
	f.Add([]byte{1}, []byte{2}, int64(0), int64(3600), "c1", true)
	f.Add([]byte{0xff, 0}, []byte{0x80}, int64(-600), int64(5*365*24*3600), "a-very-long-name-of-a-cluster", false)
	f.Fuzz(func(t *testing.T, serial, scalar []byte, from, life int64, id string, sender bool) {
		n := new(big.Int).SetBytes(serial)
		if n.Sign() == 0 || len(serial) > 20 || !label.MatchString(id) {
			t.Skip("no record of ours")
		}
		var raw [32]byte
		copy(raw[1:], scalar)
		key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), raw[:])
		if err != nil {
			t.Skip("no key")
		}
		r := receiverRecord()
		if sender {
			r = senderRecord()
			r.HolderID, r.Holder = id, "op-a-export-"+id
		}
		r.Serial = n.Text(16)
		r.NotBefore = now.Add(time.Duration(from%(1<<30)) * time.Second)
		r.NotAfter = ca.Cert.NotAfter.Add(-time.Duration(life&(1<<27-1)) * time.Second)
		requireSameLeaf(t, ca, r, !sender, &key.PublicKey)
	})
}

func BenchmarkSignLeaf(b *testing.B) {
	ca, pub := newCA(b, "op-a"), &newKey(b).PublicKey
	template, err := pki.Template(senderRecord(), false)
	require.NoError(b, err)
	spki, err := x509.MarshalPKIXPublicKey(pub)
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		_, err := pki.SignLeaf(template, spki, ca)
		require.NoError(b, err)
	}
}
