// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

var shells = []string{"dash", "bash"}

func run(t testing.TB, shell, script string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), shell, "-c", script).CombinedOutput()
	require.NoError(t, err, "%s: %s\n%s", shell, script, out)
	return string(out)
}

var oddWords = []string{
	"plain", "", "a b", "it's", `"; rm -rf /`, "$HOME", "`id`", "a\nb", "a\n", "ä", "*", "~", "~root", "--", "-n", "#x", "!!", `\`,
	"{a,b}", "'", "''", "a=b", "${x}", "$((1))", "&", "|", "\t", "\x01", "\xff", "END", hostileName, hostileLabel,
}

// IN-5: no name or value breaks out of its word.
func TestShellWord(t *testing.T) {
	for _, shell := range shells {
		for _, word := range oddWords {
			checkWord(t, shell, word)
		}
		assert.Equal(t, "a b|$x|", run(t, shell, "for w in "+ShellWords("a b", "$x")+"; do printf '%s|' \"$w\"; done"))
	}
}

func checkWord(t testing.TB, shell, word string) {
	t.Helper()
	require.Equal(t, word+".", run(t, shell, "printf %s. "+ShellWord(word)), shell)
}

// FuzzShellWord sends words through real shells and back.
func FuzzShellWord(f *testing.F) {
	for _, word := range oddWords {
		f.Add(word)
	}
	f.Fuzz(func(t *testing.T, word string) {
		if strings.ContainsRune(word, 0) || len(word) > 1<<12 {
			t.Skip("no argument holds a NUL")
		}
		for _, shell := range shells {
			checkWord(t, shell, word)
		}
	})
}

// FuzzHereDoc sends texts through real shells and back, those that hold the word
// that ends them too.
func FuzzHereDoc(f *testing.F) {
	for _, text := range append(oddWords, "END\nEND_\n", "a\nEND\nb\n", "\n\n") {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.ContainsRune(text, 0) || len(text) > 1<<12 {
			t.Skip("no shell text holds a NUL")
		}
		for _, shell := range shells {
			require.Equal(t, strings.TrimSuffix(text, "\n")+"\n", run(t, shell, hereDoc("cat", text, " | cat")), shell)
		}
	})
}

func TestUnitWord(t *testing.T) {
	for word, want := range map[string]string{
		"/usr/bin/x": "/usr/bin/x", "": `""`, "a b": `"a b"`, "50%": `"50%%"`, "$x": `"$$x"`, `a"b\c`: `"a\"b\\c"`,
	} {
		assert.Equal(t, want, unitWord(word))
	}
}

// FuzzYAML sends names and values through the YAML of chart values and back.
func FuzzYAML(f *testing.F) {
	for _, word := range append(oddWords, "null", "0x10", "yes", "1e3", "2026-11-30", "- a", "a: b", "|", ">") {
		f.Add(word)
	}
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.ToValidUTF8(text, "?")
		var back map[string]string
		require.NoError(t, yaml.UnmarshalStrict([]byte(yamlText(map[string]any{"label": text})), &back))
		require.Equal(t, text, back["label"])
	})
}
