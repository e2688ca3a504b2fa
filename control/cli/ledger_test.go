// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gowebpki/jcs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// exportOf is a chain of n events of an operator, as contract 7 hashes it:
// SHA-256 of the previous hash and the RFC 8785 form of the event.
func exportOf(t *testing.T, operatorID string, n int) []string {
	t.Helper()
	lines := make([]string, 0, n)
	previous := make([]byte, sha256.Size)
	for i := 1; i <= n; i++ {
		// Members out of order , spaces, and text that Go would escape: the hash is
		// over the canonical text, not over the line.
		event := fmt.Sprintf(`{"type":"issued","sequence":%d, "operatorId":%q,"at":"2026-11-30T12:00:00Z","holder":"é<&"}`, i, operatorID)
		canonical, err := jcs.Transform([]byte(event))
		require.NoError(t, err)
		sum := sha256.Sum256(append(bytes.Clone(previous), canonical...))
		previous = sum[:]
		lines = append(lines, fmt.Sprintf(`{"event":%s,"hash":%q}`, event, hex.EncodeToString(previous)))
	}
	return lines
}

func hashOf(line string) string { return line[len(line)-66 : len(line)-2] }

func TestLedgerVerifyFile(t *testing.T) {
	lines := exportOf(t, "op-eu", 4)
	edited := strings.Replace(lines[2], `"issued"`, `"held"`, 1)
	join := func(lines ...string) string { return strings.Join(lines, "\n") + "\n" }
	tests := map[string]struct {
		content, head string
		code          int
		want          string
	}{
		"right":              {join(lines...), "", exitDone, "op-eu     4        ok"},
		"with its head":      {join(lines...), hashOf(lines[3]), exitDone, "op-eu     4        ok"},
		"past an older head": {join(lines...), hashOf(lines[1]), exitDone, "op-eu     4        ok"},
		"blank lines":        {"\n" + join(lines...) + "\n\n", "", exitDone, "op-eu     4        ok"},
		"an event changed":   {join(lines[0], lines[1], edited, lines[3]), "", exitFound, "entry 3 is bad: event 3 was changed"},
		"an event missing":   {join(lines[0], lines[2]), "", exitFound, "entry 2 is bad: event 2 is missing"},
		"order changed":      {join(lines[1], lines[0]), "", exitFound, "entry 1 is bad: event 1 is missing"},
		"cut at the end":     {join(lines[:2]...), hashOf(lines[3]), exitFound, "entry 3 is bad: the chain does not hold the hash of --head"},
		"another operator":   {join(lines[0], exportOf(t, "op-us", 2)[1]), "", exitFound, "entry 2 is bad: event 2 is of another operator"},
		"not JSON":           {join(lines[0], "{"), "", exitFound, "entry 2 is bad: not an event line"},
		"a member more":      {join(strings.Replace(lines[0], `{"event"`, `{"x":1,"event"`, 1)), "", exitFound, "entry 1 is bad: not an event line"},
		"the same key twice": {join(strings.Replace(lines[0], `"type":"issued"`, `"type":"held","type":"issued"`, 1)), "", exitFound, "entry 1 is bad"},
		"two on a line":      {lines[0] + lines[1], "", exitFound, "entry 1 is bad: not an event line: more than one document"},
		"too long a line":    {strings.Repeat("x", maxLedgerLine+1), "", exitFound, "entry 1 is bad: its line is too long"},
		"no event":           {"\n", "", exitFound, "entry 1 is bad: it is missing"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "export.jsonl")
			require.NoError(t, os.WriteFile(path, []byte(test.content), 0o600))
			got := newMachine(t, nil).run("ledger", "verify", "--file", path, "--head", test.head)
			assert.Equal(t, test.code, got.code, got.stderr)
			assert.Contains(t, got.stdout, test.want)
			assert.Empty(t, got.stderr)
		})
	}
	got := newMachine(t, nil).run("ledger", "verify", "--file", filepath.Join(t.TempDir(), "none"))
	assert.Equal(t, exitFailed, got.code)
}

// ledgerAnswers serves lines in pages of two, as the API does in pages of many.
func ledgerAnswers(f *fakeServer, lines []string) {
	const path = "GET /api/v1/orgs/default/operators/op-eu/ledger"
	f.answers[path+"/head"] = map[string]any{"operatorId": "op-eu", "sequence": len(lines), "hash": hashOf(lines[len(lines)-1])}
	f.answers[path] = func(w http.ResponseWriter) {
		var after int
		_, _ = fmt.Sscanf(f.requests[len(f.requests)-1], "GET /api/v1/orgs/default/operators/op-eu/ledger?after=%d", &after)
		for _, line := range lines[min(after, len(lines)):min(after+2, len(lines))] {
			_, _ = fmt.Fprintln(w, line)
		}
	}
}

func TestLedgerOnline(t *testing.T) {
	lines := exportOf(t, "op-eu", 5)
	f := newFakeServer(t, map[string]any{"GET /api/v1/orgs/default/operators": page(map[string]any{"id": "op-eu"})})
	ledgerAnswers(f, lines)
	m := newMachine(t, f)

	assert.Equal(t, strings.Join(lines, "\n")+"\n", m.ok("ledger", "export", "op-eu"))
	assert.Equal(t, "op-eu 5 "+hashOf(lines[4])+"\n", m.ok("ledger", "head", "op-eu"))
	want := "OPERATOR  ENTRIES  RESULT  HEAD\nop-eu     5        ok      " + hashOf(lines[4]) + "\n"
	assert.Equal(t, want, m.ok("ledger", "verify"))
	assert.Equal(t, want, m.ok("ledger", "verify", "op-eu", "--head", hashOf(lines[2])))

	path := filepath.Join(t.TempDir(), "export.jsonl")
	m.ok("ledger", "export", "op-eu", "--out", path)
	assert.Equal(t, want, m.ok("ledger", "verify", "--file", path))

	head := f.answers["GET /api/v1/orgs/default/operators/op-eu/ledger/head"].(map[string]any)
	head["hash"] = strings.Repeat("0", 64)
	got := m.run("ledger", "verify", "op-eu")
	assert.Equal(t, exitFound, got.code)
	assert.Contains(t, got.stdout, "entry 5 is bad: it has another hash than the head that the server names")
	head["sequence"] = 9
	assert.Contains(t, m.run("ledger", "verify", "op-eu").stdout, "entry 6 is bad: it is missing: the head is 9")

	lines[3] = strings.Replace(lines[3], `"issued"`, `"held"`, 1)
	assert.Contains(t, m.run("ledger", "verify", "op-eu").stdout, "entry 4 is bad: event 4 was changed")
}

func FuzzParseLedgerLine(f *testing.F) {
	f.Add([]byte(`{"event":{"operatorId":"op-eu","sequence":1,"type":"issued"},"hash":"00"}`))
	f.Add([]byte(`{"event":null,"hash":""}`))
	f.Add([]byte(`{"event":{"sequence":1e99},"hash":"zz"} {}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		c := &chainResult{must: passage{hash: "00"}}
		if err := c.read(bytes.NewReader(line)); err != nil {
			t.Fatalf("reading from memory failed: %v", err)
		}
		c.end()
		if c.Fault == "" {
			t.Fatalf("a chain that does not hold its head was taken: %q", line)
		}
		if event, err := parseLedgerLine(line); err == nil && (len(event.Event) == 0 || event.Hash == "") {
			t.Fatalf("half an event was taken: %q", line)
		}
	})
}
