// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/holderproof"
	"github.com/ikhnos/continuum/internal/testpki"
)

// forged is a holder proof in parts, to be broken one at a time.
type forged struct {
	scheme, header string
	claims         map[string]any
	rawClaims      string // instead of claims
	key            *ecdsa.PrivateKey
	edit           func(jws string) string
}

func (f *forged) authorization(t *testing.T) string {
	t.Helper()
	payload := []byte(f.rawClaims)
	if f.rawClaims == "" {
		var err error
		payload, err = json.Marshal(f.claims)
		require.NoError(t, err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	input := encode([]byte(f.header)) + "." + encode(payload)
	digest := sha256.Sum256([]byte(input))
	r, s, err := ecdsa.Sign(rand.Reader, f.key, digest[:])
	require.NoError(t, err)
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	jws := input + "." + encode(signature)
	if f.edit != nil {
		jws = f.edit(jws)
	}
	return f.scheme + " " + jws
}

// TestBrokenProofs: contract, section 4 and 11; trap-14.
func TestBrokenProofs(t *testing.T) {
	h := newHarness(t, func(c *Config) { c.TrustedProxies = loopback() })
	h.operator("op-eu", "c1")
	h.operator("op-us", "c1")
	receiver := h.holder("op-eu", "")
	foreign := testpki.NewCA(t, "op-eu").Receiver(t)
	headerOf := func(alg, typ string, der []byte, more string) string {
		return `{"alg":"` + alg + `","typ":"` + typ + `","x5c":["` + base64.StdEncoding.EncodeToString(der) + `"]` + more + `}`
	}
	good := func() *forged {
		now := h.clock.now().Unix()
		jti := make([]byte, 16)
		_, _ = rand.Read(jti)
		none := sha256.Sum256(nil)
		return &forged{
			scheme: "Holder", header: headerOf("ES256", "ikhnos-proof", receiver.leaf.Raw, ""), key: receiver.key,
			claims: map[string]any{
				"htm": "GET", "htu": controlapi.RoutePolicy, "iat": now, "exp": now + 30,
				"jti": base64.RawURLEncoding.EncodeToString(jti), "bh": base64.RawURLEncoding.EncodeToString(none[:]),
			},
		}
	}
	set := func(name string, value any) func(*forged) { return func(f *forged) { f.claims[name] = value } }
	header := func(text string) func(*forged) { return func(f *forged) { f.header = text } }
	now := h.clock.now().Unix()
	raw := receiver.leaf.Raw
	cases := map[string]struct {
		reason controlapi.Reason
		edit   func(*forged)
	}{
		"another scheme":            {controlapi.ReasonProofInvalid, func(f *forged) { f.scheme = "Bearer" }},
		"no proof":                  {controlapi.ReasonProofInvalid, func(f *forged) { f.edit = func(string) string { return "" } }},
		"two parts":                 {controlapi.ReasonProofInvalid, func(f *forged) { f.edit = func(s string) string { return s[:strings.LastIndex(s, ".")] } }},
		"four parts":                {controlapi.ReasonProofInvalid, func(f *forged) { f.edit = func(s string) string { return s + ".x" } }},
		"padded base64":             {controlapi.ReasonProofInvalid, func(f *forged) { f.edit = func(s string) string { return s + "=" } }},
		"longer than 8 KiB":         {controlapi.ReasonProofInvalid, set("jti", strings.Repeat("a", 7000))},
		"algorithm none":            {controlapi.ReasonProofInvalid, header(headerOf("none", "ikhnos-proof", raw, ""))},
		"algorithm HS256":           {controlapi.ReasonProofInvalid, header(headerOf("HS256", "ikhnos-proof", raw, ""))},
		"another typ":               {controlapi.ReasonProofInvalid, header(headerOf("ES256", "JWT", raw, ""))},
		"more in the header":        {controlapi.ReasonProofInvalid, header(headerOf("ES256", "ikhnos-proof", raw, `,"kid":"1"`))},
		"crit in the header":        {controlapi.ReasonProofInvalid, header(headerOf("ES256", "ikhnos-proof", raw, `,"crit":["exp"]`))},
		"alg twice":                 {controlapi.ReasonProofInvalid, header(headerOf("ES256", "ikhnos-proof", raw, `,"alg":"ES256"`))},
		"no certificate":            {controlapi.ReasonProofInvalid, header(`{"alg":"ES256","typ":"ikhnos-proof"}`)},
		"empty x5c":                 {controlapi.ReasonProofInvalid, header(`{"alg":"ES256","typ":"ikhnos-proof","x5c":[]}`)},
		"two certificates":          {controlapi.ReasonProofInvalid, func(f *forged) { f.header = strings.Replace(f.header, `"]`, `","AA=="]`, 1) }},
		"certificate of junk":       {controlapi.ReasonProofInvalid, header(headerOf("ES256", "ikhnos-proof", []byte("junk"), ""))},
		"a claim missing":           {controlapi.ReasonProofInvalid, func(f *forged) { delete(f.claims, "bh") }},
		"a claim more":              {controlapi.ReasonProofInvalid, set("sub", "x")},
		"a claim twice":             {controlapi.ReasonProofInvalid, func(f *forged) { twice(t, f) }},
		"method in small letters":   {controlapi.ReasonProofInvalid, set("htm", "get")},
		"another method":            {controlapi.ReasonProofInvalid, set("htm", "POST")},
		"another route":             {controlapi.ReasonProofInvalid, set("htu", controlapi.RouteRenew)},
		"route with host":           {controlapi.ReasonProofInvalid, set("htu", "https://ikhnos.example.com"+controlapi.RoutePolicy)},
		"route with query":          {controlapi.ReasonProofInvalid, set("htu", controlapi.RoutePolicy+"?wait=1")},
		"another body":              {controlapi.ReasonProofInvalid, set("bh", strings.Repeat("A", 43))},
		"iat as text":               {controlapi.ReasonProofInvalid, set("iat", "1")},
		"iat with a fraction":       {controlapi.ReasonProofInvalid, set("iat", float64(now)+0.5)},
		"exp before iat":            {controlapi.ReasonProofInvalid, set("exp", now-5)},
		"life of 61 s":              {controlapi.ReasonProofInvalid, func(f *forged) { f.claims["exp"] = f.claims["iat"].(int64) + 61 }},
		"jti too short":             {controlapi.ReasonProofInvalid, set("jti", strings.Repeat("a", 15))},
		"jti too long":              {controlapi.ReasonProofInvalid, set("jti", strings.Repeat("a", 65))},
		"jti with other letters":    {controlapi.ReasonProofInvalid, set("jti", strings.Repeat("+", 20))},
		"claims that are no object": {controlapi.ReasonProofInvalid, func(f *forged) { f.rawClaims = "[]" }},
		"signed by another key":     {controlapi.ReasonProofInvalid, func(f *forged) { f.key = newKey(t) }},
		"signature cut":             {controlapi.ReasonProofInvalid, func(f *forged) { f.edit = func(s string) string { return s[:len(s)-4] } }},
		"leaf by a foreign CA of the same name": {controlapi.ReasonLeafUnknown, func(f *forged) {
			f.header, f.key = headerOf("ES256", "ikhnos-proof", foreign.Cert.Raw, ""), foreign.Key
		}},
		"foreign leaf before its signature": {controlapi.ReasonLeafUnknown, header(headerOf("ES256", "ikhnos-proof", foreign.Cert.Raw, ""))},
		"made long ago":                     {controlapi.ReasonClockSkew, func(f *forged) { f.claims["iat"], f.claims["exp"] = now-100, now-60 }},
		"made in the future":                {controlapi.ReasonClockSkew, func(f *forged) { f.claims["iat"], f.claims["exp"] = now+200, now+230 }},
		"ended":                             {controlapi.ReasonClockSkew, func(f *forged) { f.claims["iat"], f.claims["exp"] = now-30, now-20 }},
	}
	i := 0
	for name, tc := range cases {
		i++
		f := good()
		tc.edit(f)
		req := h.request(http.MethodGet, controlapi.RoutePolicy, "", nil)
		req.Header.Set("Authorization", f.authorization(t))
		req.Header.Set("X-Forwarded-For", "192.0.2."+string(rune('0'+i%10))+string(rune('0'+i/10%10))) // failures are throttled by address
		t.Run(name, func(t *testing.T) {
			p := refused(t, h.send(req), tc.reason)
			assert.Equal(t, tc.reason == controlapi.ReasonClockSkew, p.ServerTime != nil)
		})
	}
	require.GreaterOrEqual(t, len(cases), 25)

	t.Run("good, scheme in any case, once", func(t *testing.T) {
		f := good()
		f.scheme = "hOLDER"
		req := h.request(http.MethodGet, controlapi.RoutePolicy, "", nil)
		req.Header.Set("Authorization", f.authorization(t))
		require.Equal(t, http.StatusOK, h.send(req.Clone(t.Context())).StatusCode)
		refused(t, h.send(req), controlapi.ReasonProofReplayed)
	})
	t.Run("two Authorization headers", func(t *testing.T) {
		req := h.proven(receiver, http.MethodGet, controlapi.RoutePolicy, "", nil)
		req.Header.Add("Authorization", "Bearer x")
		refused(t, h.send(req), controlapi.ReasonProofInvalid)
	})
	t.Run("Content-Encoding", func(t *testing.T) {
		req := h.proven(receiver, http.MethodPost, controlapi.RouteRenew, "", []byte(`{"csr":""}`))
		req.Header.Set("Content-Encoding", "gzip")
		refused(t, h.send(req), controlapi.ReasonMediaTypeUnsupported)
	})
	t.Run("body changed on its way", func(t *testing.T) {
		req := h.request(http.MethodPost, controlapi.RouteRenew, "", `{"csr":"x"}`)
		proof, err := holderproof.Sign(receiver.key, receiver.leaf.Raw, holderproof.Request{Method: "POST", Route: controlapi.RouteRenew, Body: []byte(`{"csr":"y"}`)}, h.clock.now())
		require.NoError(t, err)
		req.Header.Set("Authorization", "Holder "+proof)
		refused(t, h.send(req), controlapi.ReasonProofInvalid)
	})
}

func twice(t *testing.T, f *forged) {
	t.Helper()
	text, err := json.Marshal(f.claims)
	require.NoError(t, err)
	f.rawClaims = strings.Replace(string(text), "{", `{"htm":"GET",`, 1)
}

// TestProofOfUnknownLeaf: a leaf that our CA signed and the ledger lacks is
// refused and kept for cert adopt.
func TestProofOfUnknownLeaf(t *testing.T) {
	h := newHarness(t)
	h.operator("op-eu", "c1")
	held := h.holder("op-eu", "c1")
	require.NoError(t, h.store.Update(t.Context(), func(tx *ledger.Tx) error {
		_, err := tx.Exec(`DELETE FROM entries WHERE serial = $1`, held.Serial)
		return err
	}))
	refused(t, h.renew(held, newKey(t)), controlapi.ReasonLeafNotInLedger)
	refused(t, h.policy(held, "", ""), controlapi.ReasonLeafNotInLedger)
	require.NoError(t, h.store.View(t.Context(), func(tx *ledger.Tx) error {
		leaves, err := tx.UnknownLeaves()
		require.Len(t, leaves, 1)
		assert.Equal(t, held.leaf.Raw, leaves[0].Leaf)
		return err
	}))
}

// TestClockSkewIsCorrected: serverTime is what the next proof is made by.
func TestClockSkewIsCorrected(t *testing.T) {
	h := newHarness(t)
	h.operator("op-eu")
	receiver := h.holder("op-eu", "")
	req := h.request(http.MethodGet, controlapi.RoutePolicy, "", nil)
	sign := func(at time.Time) {
		proof, err := holderproof.Sign(receiver.key, receiver.leaf.Raw, holderproof.Request{Method: "GET", Route: controlapi.RoutePolicy}, at)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Holder "+proof)
	}
	sign(h.clock.now().Add(-3 * time.Hour))
	p := refused(t, h.send(req.Clone(t.Context())), controlapi.ReasonClockSkew)
	require.NotNil(t, p.ServerTime)
	sign(*p.ServerTime)
	assert.Equal(t, http.StatusOK, h.send(req).StatusCode)
}

// TestProofBeforeBody: contract, section 4, "Checked in this order": what the
// ledger has against a proof comes before what is wrong with the body, and the
// proof is spent either way.
func TestProofBeforeBody(t *testing.T) {
	h := newHarness(t)
	h.operator("op-eu", "c1", "c2")
	sender, revoked := h.holder("op-eu", "c1"), h.holder("op-eu", "c2")
	receiver := h.holder("op-eu", "")
	admin1[controlapi.Receipt](h, http.MethodPost, "/operators/op-eu/senders/c2/revoke", operators.RevokeRequest{Reason: operators.RevokeCompromised})
	for name, tc := range map[string]struct {
		held        *holder
		route, body string
		first, then controlapi.Reason
	}{
		"renewal, revoked, unknown field": {revoked, controlapi.RouteRenew, `{"x":1}`, controlapi.ReasonLeafRevoked, controlapi.ReasonLeafRevoked},
		"renewal, revoked, no CSR":        {revoked, controlapi.RouteRenew, `{"csr":"x"}`, controlapi.ReasonLeafRevoked, controlapi.ReasonLeafRevoked},
		"report, revoked":                 {revoked, controlapi.RoutePolicyReport, `{}`, controlapi.ReasonLeafRevoked, controlapi.ReasonLeafRevoked},
		"report, wrong role":              {sender, controlapi.RoutePolicyReport, `{}`, controlapi.ReasonRoleWrong, controlapi.ReasonRoleWrong},
		"renewal, good leaf":              {sender, controlapi.RouteRenew, `{"csr":"x"}`, controlapi.ReasonCSRInvalid, controlapi.ReasonProofReplayed},
		"renewal, good leaf, not JSON":    {sender, controlapi.RouteRenew, `{`, controlapi.ReasonRequestMalformed, controlapi.ReasonProofReplayed},
		"report, good leaf":               {receiver, controlapi.RoutePolicyReport, `{}`, controlapi.ReasonValidationFailed, controlapi.ReasonProofReplayed},
	} {
		t.Run(name, func(t *testing.T) {
			req := h.proven(tc.held, http.MethodPost, tc.route, "", []byte(tc.body))
			again := req.Clone(t.Context())
			again.Body = io.NopCloser(strings.NewReader(tc.body))
			refused(t, h.send(req), tc.first)
			refused(t, h.send(again), tc.then)
		})
	}
}
