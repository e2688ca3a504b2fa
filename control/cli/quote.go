// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"strings"

	"github.com/ikhnos/continuum/control/install"
)

// shellWords quotes every word for sh and puts a space between them.
func shellWords(words ...string) string { return install.ShellWords(words...) }

func shellWord(word string) string { return install.ShellWord(word) }

// jsonText is a value that always encodes, as JSON in one line.
func jsonText(value any) string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value)
	return strings.TrimSuffix(b.String(), "\n")
}
