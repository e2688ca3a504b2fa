// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package holderproof

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/testpki"
)

// draft is a proof in parts, for a test to break one.
type draft struct {
	scheme, header, claims string
	signature              func(input string) string
	whole                  func(value string) string // edits the finished header value
}

func newDraft(t testing.TB) *draft {
	leaf := testpki.NewCA(t, "op-abc").Sender(t, controlapi.KindCluster, "c1")
	return &draft{
		scheme: "Holder ",
		header: fmt.Sprintf(`{"alg":"ES256","typ":"ikhnos-proof","x5c":["%s"]}`, base64.StdEncoding.EncodeToString(leaf.Cert.Raw)),
		claims: fmt.Sprintf(`{"htm":"GET","htu":"/api/v1/operator-policy","iat":%d,"exp":%d,"jti":"0123456789abcdef","bh":"%s"}`,
			proofTime.Unix(), proofTime.Unix()+30, bodyHash(nil)),
		signature: func(input string) string {
			raw, err := signES256(leaf.Key, []byte(input))
			require.NoError(t, err)
			return base64.RawURLEncoding.EncodeToString(raw)
		},
		whole: func(value string) string { return value },
	}
}

func (d *draft) value() string {
	input := base64.RawURLEncoding.EncodeToString([]byte(d.header)) + "." + base64.RawURLEncoding.EncodeToString([]byte(d.claims))
	return d.whole(d.scheme + input + "." + d.signature(input))
}

func inHeader(old, new string) func(*draft) {
	return func(d *draft) { d.header = replaceOnce(d.header, old, new) }
}

func inClaims(old, new string) func(*draft) {
	return func(d *draft) { d.claims = replaceOnce(d.claims, old, new) }
}

func replaceOnce(text, old, new string) string {
	if strings.Count(text, old) != 1 {
		panic("the test replaces text that is not there once: " + old)
	}
	return strings.Replace(text, old, new, 1)
}

func onWhole(edit func(string) string) func(*draft) { return func(d *draft) { d.whole = edit } }

var (
	iatText = fmt.Sprintf(`"iat":%d`, proofTime.Unix())
	expText = fmt.Sprintf(`"exp":%d`, proofTime.Unix()+30)
	bhText  = bodyHash(nil)
)

// 60 proofs, each broken in one way, and what is said of it. The secret
// parts of a proof never stand in the error.
var brokenProofs = []struct {
	name   string
	breaks func(*draft)
	want   error
}{
	{"no scheme", func(d *draft) { d.scheme = "" }, errScheme},
	{"bearer", func(d *draft) { d.scheme = "Bearer " }, errScheme},
	{"tab after the scheme", func(d *draft) { d.scheme = "Holder\t" }, errScheme},
	{"empty", onWhole(func(string) string { return "" }), errScheme},
	{"scheme alone", onWhole(func(string) string { return "Holder " }), errCompact},
	{"over 8 KiB", onWhole(func(v string) string { return v + strings.Repeat(" ", MaxHeaderBytes) }), errHeaderSize},
	{"two parts", onWhole(func(v string) string { return v[:strings.LastIndex(v, ".")] }), errCompact},
	{"four parts", onWhole(func(v string) string { return v + ".AAAA" }), errCompact},
	{"two proofs", onWhole(func(v string) string { return v + ", " + v }), errCompact},
	{"padding", onWhole(func(v string) string { return v + "==" }), errCompact},
	{"standard alphabet", onWhole(func(v string) string { return v[:len(v)-1] + "+" }), errCompact},
	{"line break in a part", onWhole(func(v string) string { return v[:len(v)-1] + "\n" + v[len(v)-1:] }), errCompact},
	{"loose trailing bits", onWhole(func(v string) string { return v[:len(v)-1] + "B" }), errCompact},
	{"header in clear", onWhole(func(v string) string { return `Holder {"alg":"ES256"}.e30.AAAA` }), errCompact},

	{"header not JSON", func(d *draft) { d.header = "alg" }, errProtected},
	{"header an array", func(d *draft) { d.header = `["ES256"]` }, errProtected},
	{"header null", func(d *draft) { d.header = "null" }, errProtected},
	{"header cut off", func(d *draft) { d.header = strings.TrimSuffix(d.header, "}") }, errProtected},
	{"text after the header", func(d *draft) { d.header += "{}" }, errProtected},
	{"header not UTF-8", inHeader("ikhnos-proof", "ikhnos-proof\xff"), errProtected},
	{"no alg", inHeader(`"alg":"ES256",`, ""), errProtected},
	{"alg none", inHeader("ES256", "none"), errProtected},
	{"alg HS256", inHeader("ES256", "HS256"), errProtected},
	{"alg in small letters", inHeader("ES256", "es256"), errProtected},
	{"alg twice", inHeader(`"alg":"ES256"`, `"alg":"none","alg":"ES256"`), errProtected},
	{"alg twice through an escape", inHeader(`"alg":"ES256"`, `"\u0061lg":"none","alg":"ES256"`), errProtected},
	{"ALG", inHeader(`"alg"`, `"ALG"`), errProtected},
	{"another typ", inHeader("ikhnos-proof", "ikhnos-policy"), errProtected},
	{"no typ", inHeader(`"typ":"ikhnos-proof",`, ""), errProtected},
	{"crit", inHeader(`"alg"`, `"crit":["exp"],"alg"`), errProtected},
	{"jwk", inHeader(`"alg"`, `"jwk":{},"alg"`), errProtected},
	{"kid", inHeader(`"alg"`, `"kid":"1","alg"`), errProtected},
	{"x5c a string", func(d *draft) { d.header = strings.NewReplacer("[", "", "]", "").Replace(d.header) }, errProtected},
	{"x5c empty", func(d *draft) { d.header = `{"alg":"ES256","typ":"ikhnos-proof","x5c":[]}` }, errProtected},
	{"x5c with two certificates", inHeader(`["`, `["AAAA","`), errProtected},
	{"x5c with a number", func(d *draft) { d.header = `{"alg":"ES256","typ":"ikhnos-proof","x5c":[1]}` }, errProtected},
	{"x5c not a certificate", func(d *draft) { d.header = `{"alg":"ES256","typ":"ikhnos-proof","x5c":["AAAA"]}` }, errCertificate},
	{"x5c with a line break", inHeader(`["`, `["\n`), errCertificate},
	{"x5c with text behind the certificate", func(d *draft) {
		start, end := strings.Index(d.header, `["`)+2, strings.Index(d.header, `"]`)
		der, _ := base64.StdEncoding.DecodeString(d.header[start:end])
		d.header = d.header[:start] + base64.StdEncoding.EncodeToString(append(der, 0)) + d.header[end:]
	}, errCertificate},

	{"claims not an object", func(d *draft) { d.claims = "1" }, errClaims},
	{"a seventh claim", inClaims(`"htm"`, `"iss":"me","htm"`), errClaims},
	{"nbf instead of iat", inClaims(`"iat"`, `"nbf"`), errClaims},
	{"iat twice", inClaims(iatText, iatText+","+iatText), errClaims},
	{"jti twice, one in capitals", inClaims(`"jti"`, `"JTI":"0123456789abcdef","jti"`), errClaims},
	{"no bh", func(d *draft) { d.claims = strings.Replace(d.claims, `,"bh":"`+bhText+`"`, "", 1) }, errClaims},
	{"iat a string", inClaims(iatText, `"iat":"1796040000"`), errClaims},
	{"iat with a fraction", inClaims(iatText, iatText+".0"), errClaims},
	{"iat with an exponent", inClaims(iatText, `"iat":1e9`), errClaims},
	{"iat negative", inClaims(iatText, `"iat":-1`), errClaims},
	{"exp beyond 62 bits", inClaims(expText, `"exp":9223372036854775807`), errClaims},
	{"htm a number", inClaims(`"GET"`, "1"), errClaims},
	{"exp at iat", inClaims(expText, fmt.Sprintf(`"exp":%d`, proofTime.Unix())), errClaimLife},
	{"exp 61 s later", inClaims(expText, fmt.Sprintf(`"exp":%d`, proofTime.Unix()+61)), errClaimLife},
	{"htm in small letters", inClaims(`"GET"`, `"get"`), errClaimHTM},
	{"htu with a host", inClaims(`"/api`, `"https://ikhnos.example.com/api`), errClaimHTU},
	{"jti of 15 characters", inClaims("0123456789abcdef", "0123456789abcde"), errClaimJTI},
	{"jti of 65 characters", inClaims("0123456789abcdef", strings.Repeat("a", 65)), errClaimJTI},
	{"jti with a blank", inClaims("0123456789abcdef", "0123456789 abcdef"), errClaimJTI},
	{"bh in hex", inClaims(bhText, strings.Repeat("ab", 32)), errClaimBH},
	{"signature in DER", func(d *draft) { d.signature = func(string) string { return "MEUCIQAA" } }, errSignatureLen},
}

func TestBrokenProofs(t *testing.T) {
	require.Len(t, brokenProofs, 60)
	_, err := Parse(newDraft(t).value())
	require.NoError(t, err, "the draft itself is good")
	for _, tc := range brokenProofs {
		t.Run(tc.name, func(t *testing.T) {
			d := newDraft(t)
			tc.breaks(d)
			_, err := Parse(d.value())
			require.ErrorIs(t, err, tc.want)
		})
	}
}
