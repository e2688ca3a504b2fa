// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package pki_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/ledger/ledgertest"
	"github.com/ikhnos/continuum/control/pki"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// recorder wires the real ledger, as the server does.
type recorder struct {
	store *ledger.Store
	fault error // returned after the entry was written: a lost answer
	calls int
}

func (r *recorder) Record(ctx context.Context, req pki.Request, spki string, sign func(pki.Record) error) error {
	r.calls++
	_, err := r.store.Issue(ctx, ledger.IssueRequest{
		TokenHash: req.TokenHash, Proof: (*ledger.Proof)(req.Proof), SPKI: spki, Lifetime: 30 * day,
		Meanwhile: func(out ledger.Issuance) error {
			e := out.Entry
			return sign(pki.Record{
				OperatorID: e.OperatorID, Serial: e.Serial, Role: controlapi.Role(e.Role), Kind: controlapi.Kind(e.Kind),
				HolderID: e.HolderID, Holder: e.Holder, NotBefore: e.NotBefore, NotAfter: e.NotAfter,
				RenewAfter: e.RenewAfter, RenewBy: e.RenewBy, CACert: out.CACert, CAKey: out.CAKey,
			})
		},
	})
	return errors.Join(err, r.fault)
}

func newIssuer(t *testing.T) (*pki.Issuer, *recorder, *ledgertest.Fixture, *pki.CA) {
	t.Helper()
	clock := ledgertest.NewClock()
	store, err := ledger.Open(t.Context(), ledger.Options{DataDir: t.TempDir(), Now: clock.Now})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	f := ledgertest.New(t, store, clock)
	sealer := newSealer(t, "secret")
	ca, err := pki.NewOperatorCA("op-a", clock.Now())
	require.NoError(t, err)
	sealed, err := sealer.SealKey("op-a", ca.Key)
	require.NoError(t, err)
	f.OperatorWithCA("op-a", ca.Cert.Raw, sealed)
	f.Sender("op-a", "c1")
	r := &recorder{store: store}
	issuer, err := pki.NewIssuer(r, pki.NewKeyring(sealer), false)
	require.NoError(t, err)
	return issuer, r, f, ca
}

func TestIssue(t *testing.T) {
	issuer, r, f, ca := newIssuer(t)
	key := newKey(t)
	req := pki.Request{CSR: newCSR(t, key), TokenHash: f.Token("op-a", ledger.RoleSender, "c1")}

	// The answer is lost after the entry was written, and asked for again.
	r.fault = errors.New("the connection broke")
	_, err := issuer.Issue(t.Context(), req)
	require.ErrorIs(t, err, r.fault)
	r.fault = nil
	first, err := issuer.Issue(t.Context(), req)
	require.NoError(t, err)
	again, err := issuer.Issue(t.Context(), req)
	require.NoError(t, err)
	assert.Equal(t, first, again, "byte for byte")
	assert.Equal(t, 1, f.Count("op-a"))

	block, rest := pem.Decode([]byte(first.Answer.Certificate))
	assert.Empty(t, rest)
	leaf, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	assert.True(t, key.PublicKey.Equal(leaf.PublicKey))
	assert.Equal(t, pki.CertPEM(ca.Cert.Raw), first.Answer.CA)
	assert.Equal(t, controlapi.RoleSender, first.Answer.Role)
	assert.Equal(t, "op-a-export-c1", first.Answer.Name)
	e := f.Entry("op-a", first.Answer.Serial) // LG-1: what left is what was recorded
	assert.Equal(t, e.NotAfter, leaf.NotAfter)
	assert.Equal(t, e.NotAfter, first.Answer.NotAfter)
	assert.Equal(t, e.RenewAfter, first.Answer.RenewAfter)
	assert.Equal(t, e.RenewBy, first.Answer.RenewBy)
	assert.Equal(t, e.SPKI, pki.Pin(leaf)[len("sha256:"):])

	next := newKey(t)
	renewed, err := issuer.Issue(t.Context(), pki.Request{CSR: newCSR(t, next), Proof: (*pki.Proof)(f.Proof(e))})
	require.NoError(t, err)
	assert.NotEqual(t, first.Answer.Serial, renewed.Answer.Serial)
}

// Nothing is signed that was not recorded.
func TestIssueRefusals(t *testing.T) {
	issuer, r, f, _ := newIssuer(t)
	_, err := issuer.Issue(t.Context(), pki.Request{CSR: "no", TokenHash: f.Token("op-a", ledger.RoleSender, "c1")})
	var problem *controlapi.Problem
	require.ErrorAs(t, err, &problem)
	assert.Zero(t, r.calls, "a bad request records nothing")

	cert, err := issuer.Issue(t.Context(), pki.Request{CSR: newCSR(t, newKey(t)), TokenHash: []byte("unknown")})
	var refusal *ledger.Refusal
	require.ErrorAs(t, err, &refusal)
	assert.Nil(t, cert)

	f.Update(func(tx *ledger.Tx) error { return tx.EraseCA("op-a") })
	cert, err = issuer.Issue(t.Context(), pki.Request{CSR: newCSR(t, newKey(t)), TokenHash: f.Token("op-a", ledger.RoleSender, "c1")})
	require.ErrorIs(t, err, pki.ErrKeyErased)
	assert.Nil(t, cert)

	_, err = pki.NewIssuer(nil, pki.NewKeyring(newSealer(t, "")), false)
	require.Error(t, err)
	_, err = pki.NewIssuer(r, nil, false)
	require.Error(t, err)
}

// BenchmarkIssue signs without a database.
func BenchmarkIssue(b *testing.B) {
	ca, err := pki.NewOperatorCA("op-a", now)
	require.NoError(b, err)
	csr := newCSR(b, newKey(b))
	for b.Loop() {
		pub, err := pki.ParseCSR(csr)
		require.NoError(b, err)
		t, err := pki.Template(senderRecord(), false)
		require.NoError(b, err)
		der, err := pki.Sign(t, pub, ca)
		require.NoError(b, err)
		require.NoError(b, pki.Check(der, t, pub, ca))
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "certificates/s")
}
