// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package holderproof

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/testpki"
)

var proofTime = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// RN-5: possession of the old certificate's key is the proof.
func TestSignAndVerify(t *testing.T) {
	leaf := testpki.NewCA(t, "op-abc").Sender(t, controlapi.KindCluster, "c1")
	req := Request{Method: "POST", Route: controlapi.RouteRenew, Body: []byte(`{"csr":"x"}`)}

	jws, err := Sign(leaf.Key, leaf.Cert.Raw, req, proofTime)
	require.NoError(t, err)
	again, err := Sign(leaf.Key, leaf.Cert.Raw, req, proofTime)
	require.NoError(t, err)
	require.NotEqual(t, jws, again, "every proof has an id of its own")

	for _, scheme := range []string{"Holder ", "holder ", "HOLDER  "} {
		proof, err := Parse(scheme + jws)
		require.NoError(t, err)
		require.NoError(t, proof.VerifySignature())
		require.NoError(t, proof.Matches(req))
		require.Equal(t, leaf.Cert.Raw, proof.Leaf.Raw)
		require.Equal(t, proofTime.Unix(), proof.Claims.IAT)
		require.Equal(t, proofTime.Unix()+30, proof.Claims.EXP)
	}
}

func TestMatches(t *testing.T) {
	leaf := testpki.NewCA(t, "op-abc").Receiver(t)
	jws, err := Sign(leaf.Key, leaf.Cert.Raw, Request{Method: "GET", Route: controlapi.RoutePolicy}, proofTime)
	require.NoError(t, err)
	proof, err := Parse("Holder " + jws)
	require.NoError(t, err)
	require.NoError(t, proof.Matches(Request{Method: "GET", Route: controlapi.RoutePolicy, Body: []byte{}}))
	require.ErrorIs(t, proof.Matches(Request{Method: "POST", Route: controlapi.RoutePolicy}), errMethod)
	require.ErrorIs(t, proof.Matches(Request{Method: "GET", Route: controlapi.RoutePolicyReport}), errRoute)
	require.ErrorIs(t, proof.Matches(Request{Method: "GET", Route: controlapi.RoutePolicy, Body: []byte("x")}), errBody)
}

func TestCheckClock(t *testing.T) {
	proof := &Proof{Claims: Claims{IAT: proofTime.Unix(), EXP: proofTime.Unix() + 30}}
	for name, tc := range map[string]struct {
		offset time.Duration
		exp    int64
		ok     bool
	}{
		"same second":               {0, 30, true},
		"server 60 s behind":        {-60 * time.Second, 30, true},
		"server 61 s behind":        {-61 * time.Second, 30, false},
		"last second":               {30 * time.Second, 30, true},
		"ended":                     {31 * time.Second, 30, false},
		"60 s old, lives 60 s":      {60 * time.Second, 60, true},
		"61 s old, lives 60 s":      {61 * time.Second, 60, false},
		"fraction of a second late": {30*time.Second + 900*time.Millisecond, 30, true},
	} {
		t.Run(name, func(t *testing.T) {
			proof.Claims.EXP = proof.Claims.IAT + tc.exp
			err := proof.CheckClock(proofTime.Add(tc.offset))
			if tc.ok {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, ErrClockSkew)
			}
		})
	}
}

func TestSignRefusesOtherKeys(t *testing.T) {
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	require.NoError(t, err)
	_, err = Sign(edKey, nil, Request{}, proofTime)
	require.ErrorIs(t, err, errKeyUnsupported)
	_, err = Sign(p384, nil, Request{}, proofTime)
	require.ErrorIs(t, err, errKeyUnsupported)
}

// A proof by a stolen leaf without its key, and one over a leaf whose key is of
// another kind, have a good shape and fail at the signature.
func TestVerifySignatureRefuses(t *testing.T) {
	ca := testpki.NewCA(t, "op-abc")
	leaf := ca.Sender(t, controlapi.KindCluster, "c1")
	thief := testpki.NewKey(t)
	jws, err := Sign(thief, leaf.Cert.Raw, Request{Method: "GET", Route: "/"}, proofTime)
	require.NoError(t, err)
	proof, err := Parse("Holder " + jws)
	require.NoError(t, err)
	require.ErrorIs(t, proof.VerifySignature(), errSignature)

	edPublic, _, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	other := ca.Sender(t, controlapi.KindCluster, "c1", testpki.ForKey(edPublic))
	jws, err = Sign(thief, other.Cert.Raw, Request{Method: "GET", Route: "/"}, proofTime)
	require.NoError(t, err)
	proof, err = Parse("Holder " + jws)
	require.NoError(t, err)
	require.ErrorIs(t, proof.VerifySignature(), errKeyUnsupported)
}

// FuzzParse: whatever a client sends, Parse ends in an error or in a proof that
// keeps every promise of the shape.
func FuzzParse(f *testing.F) {
	leaf := testpki.NewCA(f, "op-abc").Sender(f, controlapi.KindCluster, "c1")
	jws, err := Sign(leaf.Key, leaf.Cert.Raw, Request{Method: "GET", Route: controlapi.RoutePolicy}, proofTime)
	require.NoError(f, err)
	parts := strings.Split(jws, ".")
	header, _ := base64.RawURLEncoding.DecodeString(parts[0])
	claims, _ := base64.RawURLEncoding.DecodeString(parts[1])
	f.Add(string(header), string(claims), parts[2])
	f.Add(`{}`, `{}`, "")
	f.Add(`{"alg":"none"}`, `{"iat":1e3}`, parts[2])
	f.Fuzz(func(t *testing.T, header, claims, signature string) {
		value := "Holder " + base64.RawURLEncoding.EncodeToString([]byte(header)) + "." +
			base64.RawURLEncoding.EncodeToString([]byte(claims)) + "." + signature
		proof, err := Parse(value)
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(value), MaxHeaderBytes)
		require.NotNil(t, proof.Leaf)
		require.NoError(t, proof.Claims.check())
		slowly, err := readClaims([]byte(claims))
		require.NoError(t, err)
		require.Equal(t, slowly, proof.Claims, "the quick way reads what the other one does")
		require.Len(t, proof.signature, 64)
		var members map[string]any
		require.NoError(t, json.Unmarshal([]byte(claims), &members))
		require.Len(t, members, 6)
		_ = proof.VerifySignature() // good or bad, it must not panic
	})
}
