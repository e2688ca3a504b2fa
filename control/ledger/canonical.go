// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/gowebpki/jcs"
)

// maxExact bounds the integers that RFC 8785, whose numbers are IEEE 754, writes
// digit by digit.
const maxExact = 1 << 53

// canonicalJSON is the RFC 8785 form of an object whose names are ASCII. Strings
// and numbers, which are nearly all that events hold, are written at once; any
// other value goes the long way.
func canonicalJSON(object map[string]any) ([]byte, error) {
	out := append(make([]byte, 0, 1024), '{')
	for i, name := range slices.Sorted(maps.Keys(object)) {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, '"'), name...), '"', ':')
		switch value := object[name].(type) {
		case string:
			if plain(value) {
				out = append(append(append(out, '"'), value...), '"')
				continue
			}
		case int64:
			if -maxExact < value && value < maxExact {
				out = strconv.AppendInt(out, value, 10)
				continue
			}
		}
		canonical, err := canonicalValue(object[name])
		if err != nil {
			return nil, err
		}
		out = append(out, canonical...)
	}
	return append(out, '}'), nil
}

// plain reports whether a string is written as it is.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] == '"' || s[i] == '\\' || s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// canonicalValue is the RFC 8785 form of any value.
func canonicalValue(value any) ([]byte, error) {
	raw, err := json.Marshal([]any{value}) // the library takes no bare value
	if err != nil {
		return nil, fmt.Errorf("encoding a value: %w", err)
	}
	canonical, err := jcs.Transform(raw)
	if err != nil {
		return nil, fmt.Errorf("encoding a value: %w", err)
	}
	return canonical[1 : len(canonical)-1], nil
}
