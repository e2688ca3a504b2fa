// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package signedpolicy

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/internal/controlapi"
)

func testCA(t testing.TB) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return &x509.Certificate{PublicKey: key.Public()}, key
}

func testPolicy() *controlapi.Policy {
	return &controlapi.Policy{
		OperatorID: "op-abc",
		Version:    controlapi.Version{Epoch: 3, Number: 17},
		IssuedAt:   time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC),
		Mode:       controlapi.PolicyEnforce,
		Operator:   controlapi.PolicyOperator{Name: "EU West", Labels: map[string]string{"region": "eu"}},
		Senders: []controlapi.PolicySender{{
			Name: "op-abc-export-c1", URI: "spiffe://op-abc.ikhnos/cluster/c1", Kind: controlapi.KindCluster,
			OrgID: "default", ClusterID: "c1", State: controlapi.SenderAllowed,
			Replaced: &controlapi.Replaced{Serials: []string{"0a"}, Until: time.Date(2026, 5, 2, 0, 0, 0, 0, time.UTC)},
		}},
		RevokedSerials: []string{"0102"},
		CRL:            controlapi.RouteCRL("op-abc"),
	}
}

func signWith(t *testing.T, key crypto.Signer, protected, payload string) string {
	t.Helper()
	ca := &x509.Certificate{PublicKey: key.Public()}
	good, err := Sign(testPolicy(), ca, key)
	require.NoError(t, err)
	parts := strings.Split(good, ".")
	if protected != "" {
		parts[0] = base64.RawURLEncoding.EncodeToString([]byte(protected))
	}
	if payload != "" {
		parts[1] = base64.RawURLEncoding.EncodeToString([]byte(payload))
	}
	return resign(t, key, parts[0]+"."+parts[1])
}

func TestRoundTrip(t *testing.T) {
	ca, key := testCA(t)
	first, err := Sign(testPolicy(), ca, key)
	require.NoError(t, err)
	second, err := Sign(testPolicy(), ca, key)
	require.NoError(t, err)
	assert.Equal(t, first, second, "signing must be deterministic")

	got, err := Verify(first, ca)
	require.NoError(t, err)
	assert.Equal(t, testPolicy(), got)

	// Any JWS library can verify it.
	parsed, err := jose.ParseSigned(first, []jose.SignatureAlgorithm{jose.ES256})
	require.NoError(t, err)
	_, err = parsed.Verify(key.Public())
	require.NoError(t, err)
}

func TestSignRefusesForeignKey(t *testing.T) {
	ca, _ := testCA(t)
	_, other := testCA(t)
	_, err := Sign(testPolicy(), ca, other)
	require.Error(t, err)

	weak, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	_, err = Sign(testPolicy(), &x509.Certificate{PublicKey: weak.Public()}, weak)
	require.ErrorIs(t, err, errKey)
}

func TestVerifyHeader(t *testing.T) {
	ca, key := testCA(t)
	for name, tt := range map[string]struct {
		header string
		ok     bool
	}{
		"as signed":           {header, true},
		"other order":         {`{"typ":"ikhnos-policy","alg":"ES256"}`, true},
		"white space":         {` { "typ" : "ikhnos-policy", "alg":"ES256" } `, true},
		"alg none":            {`{"alg":"none","typ":"ikhnos-policy"}`, false},
		"alg HS256":           {`{"alg":"HS256","typ":"ikhnos-policy"}`, false},
		"no typ":              {`{"alg":"ES256"}`, false},
		"typ of a proof":      {`{"alg":"ES256","typ":"ikhnos-proof"}`, false},
		"typ in another case": {`{"alg":"ES256","typ":"IKHNOS-POLICY"}`, false},
		"kid beside":          {`{"alg":"ES256","typ":"ikhnos-policy","kid":"1"}`, false},
		"jwk beside":          {`{"alg":"ES256","typ":"ikhnos-policy","jwk":{}}`, false},
		"crit beside":         {`{"alg":"ES256","typ":"ikhnos-policy","crit":["b64"],"b64":false}`, false},
		"alg twice":           {`{"alg":"ES256","alg":"ES256","typ":"ikhnos-policy"}`, false},
		"text behind":         {header + `{}`, false},
		"array":               {`["alg","ES256"]`, false},
		"number":              {`{"alg":256,"typ":"ikhnos-policy"}`, false},
		"cut off":             {`{"alg":"ES256","typ":"ikhnos-policy"`, false},
		"nothing":             {" ", false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Verify(signWith(t, key, tt.header, ""), ca)
			if tt.ok {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, ErrSignature)
		})
	}
}

func TestVerifySignature(t *testing.T) {
	ca, key := testCA(t)
	other, _ := testCA(t)
	good, err := Sign(testPolicy(), ca, key)
	require.NoError(t, err)
	parts := strings.Split(good, ".")
	edited := strings.Replace(string(decode(t, parts[1])), "op-abc-export-c1", "op-abc-export-c2", 1)

	for name, text := range map[string]string{
		"edited payload":  parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(edited)) + "." + parts[2],
		"no signature":    parts[0] + "." + parts[1] + ".",
		"two parts":       parts[0] + "." + parts[1],
		"four parts":      good + ".x",
		"padding":         good + "=",
		"new line":        good + "\n",
		"JSON form":       `{"payload":"` + parts[1] + `","protected":"` + parts[0] + `","signature":"` + parts[2] + `"}`,
		"empty":           "",
		"DER signature":   parts[0] + "." + parts[1] + "." + base64.RawURLEncoding.EncodeToString(make([]byte, 70)),
		"zero signature":  parts[0] + "." + parts[1] + "." + base64.RawURLEncoding.EncodeToString(make([]byte, 64)),
		"swapped payload": parts[0] + "." + parts[0] + "." + parts[2],
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Verify(text, ca)
			require.ErrorIs(t, err, ErrSignature)
		})
	}
	_, err = Verify(good, other)
	require.ErrorIs(t, err, ErrSignature)
	_, err = Verify(good, &x509.Certificate{})
	require.ErrorIs(t, err, ErrSignature)
}

func TestVerifyPayload(t *testing.T) {
	ca, key := testCA(t)
	const rest = `"issuedAt":"2026-05-01T10:00:00Z","senders":[],"revokedSerials":[]`
	for name, tt := range map[string]struct {
		payload string
		ok      bool
	}{
		"smallest":        {`{"operatorId":"op-abc","epoch":1,"number":0,"mode":"deny_all",` + rest + `}`, true},
		"unknown field":   {`{"operatorId":"op-abc","epoch":1,"number":1,"mode":"enforce","later":{"a":1},` + rest + `}`, true},
		"unknown mode":    {`{"operatorId":"op-abc","epoch":1,"number":1,"mode":"allow_all",` + rest + `}`, false},
		"no mode":         {`{"operatorId":"op-abc","epoch":1,"number":1,` + rest + `}`, false},
		"no operator":     {`{"epoch":1,"number":1,"mode":"enforce",` + rest + `}`, false},
		"no time":         {`{"operatorId":"op-abc","epoch":1,"number":1,"mode":"enforce"}`, false},
		"negative number": {`{"operatorId":"op-abc","epoch":1,"number":-1,"mode":"enforce",` + rest + `}`, false},
		"huge epoch":      {`{"operatorId":"op-abc","epoch":9007199254740992,"number":1,"mode":"enforce",` + rest + `}`, false},
		"two documents":   {`{"operatorId":"op-abc","epoch":1,"number":1,"mode":"enforce",` + rest + `}{}`, false},
		"not JSON":        {`policy`, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Verify(signWith(t, key, "", tt.payload), ca)
			if tt.ok {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, ErrPayload)
		})
	}
}

// FuzzVerify: no text may panic, and nothing but what the CA signed may pass.
func FuzzVerify(f *testing.F) {
	ca, key := testCA(f)
	good, err := Sign(testPolicy(), ca, key)
	require.NoError(f, err)
	f.Add(good)
	f.Add("")
	f.Add("..")
	f.Add(good[:len(good)-1])
	f.Add(strings.Replace(good, ".", "..", 1))
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Verify(text, ca)
		if err == nil {
			require.Equal(t, testPolicy(), p)
		}
	})
}

// FuzzHeader drives the header reader alone, which mutation of a whole JWS
// seldom reaches.
func FuzzHeader(f *testing.F) {
	f.Add([]byte(header))
	f.Add([]byte(`{"alg":"ES256","alg":1}`))
	f.Fuzz(func(_ *testing.T, raw []byte) { _, _ = stringMembers(raw) })
}

func decode(t *testing.T, part string) []byte {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(part)
	require.NoError(t, err)
	return raw
}
