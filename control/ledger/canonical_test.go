// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/gowebpki/jcs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// requireCanonical compares with the whole way through the RFC 8785 library.
func requireCanonical(t *testing.T, object map[string]any) {
	t.Helper()
	raw, err := json.Marshal(object)
	require.NoError(t, err)
	want, err := jcs.Transform(raw)
	require.NoError(t, err)
	got, err := canonicalJSON(object)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

// LG-2: the hash chain is over the RFC 8785 form.
func TestCanonicalJSON(t *testing.T) {
	for _, test := range []struct {
		name   string
		object map[string]any
	}{
		{"nothing", map[string]any{}},
		{"an entry", issuedEvent(Entry{Serial: "0a", Holder: "op-a-export-c", NotAfter: time.Unix(1e9, 0).UTC()})},
		{"names in order", map[string]any{"b": "1", "a": "2", "B": "3", "aa": "4", "": "5"}},
		{"strings that need more", map[string]any{"a": "\"", "b": "\\", "c": "\n\x00\x1f\x7f", "d": "<&>\u2028é€😀", "e": "\xff"}},
		{"numbers", map[string]any{
			"a": int64(0), "b": int64(-1), "c": int64(maxExact - 1), "d": int64(maxExact), "e": int64(maxExact + 1),
			"f": int64(math.MaxInt64), "g": int64(math.MinInt64), "h": 1e21, "i": 7, "j": 0.1,
		}},
		{"the rest", map[string]any{"a": []string{"x", "y"}, "b": nil, "c": true, "d": map[string]any{"z": 1, "y": []any{}}, "e": time.Unix(1e9, 0).UTC()}},
	} {
		t.Run(test.name, func(t *testing.T) { requireCanonical(t, test.object) })
	}
	_, err := canonicalJSON(map[string]any{"a": func() {}})
	assert.Error(t, err)
}

func FuzzCanonicalJSON(f *testing.F) {
	f.Add("op-a-export-c", int64(1))
	f.Add("\"\\\u2028é\xff\n", int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, text string, number int64) {
		requireCanonical(t, map[string]any{"text": text, "number": number, "list": []string{text}})
	})
}
