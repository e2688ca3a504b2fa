// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"encoding/json"
	"slices"
	"strings"
)

// shellSafe are the characters that no POSIX shell gives a meaning.
const shellSafe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=@,+"

// ShellWords quotes every word for sh and puts a space between them.
func ShellWords(words ...string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = ShellWord(word)
	}
	return strings.Join(quoted, " ")
}

// ShellWord quotes one word for sh. A word has no NUL, which no argument can hold.
func ShellWord(word string) string {
	if word != "" && strings.Trim(word, shellSafe) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// hereDoc feeds text to a command, the last one of a list, on its standard input, where
// neither the process list nor the shell's history of one command shows it. What
// follows the command on its own line, such as a pipe, goes into more.
func hereDoc(command, text, more string) string {
	end := "END"
	for slices.Contains(strings.Split(text, "\n"), end) {
		end += "_"
	}
	return command + " <<'" + end + "'" + more + "\n" + strings.TrimSuffix(text, "\n") + "\n" + end + "\n"
}

// writeFile writes text to a file, whose mode is mode before anything is in it, whatever
// the umask and whatever file was there. Its owner stays.
func writeFile(path, mode, text string) string {
	path = ShellWord(path)
	return hereDoc("(umask 077 && touch "+path+" && chmod "+mode+" "+path+" && cat > "+path+")", text, "")
}

// collectorText is text as it must stand in a collector's configuration, or in an
// environment variable that one reads: a dollar sign is written twice.
func collectorText(s string) string { return strings.ReplaceAll(s, "$", "$$") }

// jsonText is a value as JSON in one line: of strings, booleans, and lists and maps
// of them, which always encode.
func jsonText(value any) string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value)
	return strings.TrimSuffix(b.String(), "\n")
}

// unitWord quotes one word of a command in a systemd unit, where a percent sign and
// a dollar sign are written twice.
func unitWord(word string) string {
	if word != "" && strings.Trim(word, shellSafe) == "" {
		return word
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%", "$", "$$").Replace(word) + `"`
}
