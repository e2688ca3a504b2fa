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
