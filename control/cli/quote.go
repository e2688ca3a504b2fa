// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"strings"
)

// shellSafe are the characters that no POSIX shell gives a meaning.
const shellSafe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=@,+"

// shellWords quotes every word for sh and puts a space between them.
func shellWords(words ...string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = shellWord(word)
	}
	return strings.Join(quoted, " ")
}

func shellWord(word string) string {
	if word != "" && strings.Trim(word, shellSafe) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// collectorText is text as it must stand in a collector's configuration, or in an
// environment variable that one reads: a dollar sign is written twice.
func collectorText(s string) string { return strings.ReplaceAll(s, "$", "$$") }

// yamlText is text as one quoted YAML scalar of a collector's configuration.
func yamlText(s string) string {
	var quoted strings.Builder
	encoder := json.NewEncoder(&quoted) // a JSON string is a YAML string
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(collectorText(s)) // a string always encodes
	return strings.TrimSuffix(quoted.String(), "\n")
}
