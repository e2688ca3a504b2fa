// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package holderproof

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A protected header that is spelled in another way than ours is as good.
func TestSpellingsOfTheHeader(t *testing.T) {
	own := newDraft(t).header
	want, err := parseProtected([]byte(own))
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(own, headerBegin) && strings.HasSuffix(own, headerEnd), "Sign writes the quick form")
	encoded := own[len(headerBegin) : len(own)-len(headerEnd)]
	for name, header := range map[string]string{
		"white space":   " { \"alg\" : \"ES256\",\n\"typ\":\"ikhnos-proof\", \"x5c\":[ \"" + encoded + "\" ] } ",
		"another order": `{"x5c":["` + encoded + `"],"typ":"ikhnos-proof","alg":"ES256"}`,
		"escapes":       headerBegin + strings.ReplaceAll(strings.Replace(encoded, "M", `\u004d`, 1), "/", `\/`) + headerEnd,
	} {
		got, err := parseProtected([]byte(header))
		require.NoError(t, err, name)
		assert.True(t, got.Equal(want), name)
	}
	der, err := readProtected([]byte(own))
	require.NoError(t, err, "both ways read ours")
	assert.Equal(t, want.Raw, der)
}

// Claims that are spelled in another way than ours are as good, and what the quick
// way does not understand is left to the other one.
func TestSpellingsOfTheClaims(t *testing.T) {
	own := newDraft(t).claims
	want, ok := scanClaims(own)
	require.True(t, ok, "Sign writes the quick form")
	slowly, err := readClaims([]byte(own))
	require.NoError(t, err)
	require.Equal(t, want, slowly)
	for name, claims := range map[string]string{
		"white space":   strings.ReplaceAll(own, ",", " ,\n"),
		"escapes":       strings.ReplaceAll(own, "/", `\/`),
		"another order": `{"bh":"` + want.BH + `",` + strings.TrimPrefix(strings.TrimSuffix(own, `,"bh":"`+want.BH+`"}`), "{") + "}",
	} {
		_, ok := scanClaims(claims)
		require.False(t, ok, name)
		got, err := parseClaims([]byte(claims))
		require.NoError(t, err, name)
		assert.Equal(t, want, got, name)
	}
	for name, claims := range map[string]string{
		"a number with a leading zero": strings.Replace(own, `"iat":`, `"iat":0`, 1),
		"a number with a fraction":     strings.Replace(own, `,"exp"`, `.0,"exp"`, 1),
		"no number":                    `{"htm":"GET","htu":"/","iat":`,
		"a line break in a string":     strings.Replace(own, `"htm":"`, `"htm":"`+"\n", 1),
		"text behind":                  own + "}",
		"a member twice":               strings.Replace(own, `,"iat"`, `,"htu":"/","iat"`, 1),
		"cut":                          own[:len(own)-2],
		"empty":                        "",
	} {
		_, ok := scanClaims(claims)
		assert.False(t, ok, name)
		_, err := parseClaims([]byte(claims))
		assert.ErrorIs(t, err, errClaims, name)
	}
}
