// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBackupCommand: a file by name, by default and on standard output; sealed to
// an age key; checked from a file and from standard input.
func TestBackupCommand(t *testing.T) {
	dir, here := t.TempDir(), t.TempDir()
	t.Chdir(here)
	s, _, _ := newFleet(t, dir)
	at := []string{"backup", "--data-dir", dir}

	plain := s.exec(exitDone, at...)
	assert.Contains(t, plain.stderr, "the private keys in this backup are not sealed")
	assert.Regexp(t, `(?m)^certificates\s+4$`, plain.stdout)
	files, err := filepath.Glob("ikhnos-backup-*Z.jsonl")
	require.NoError(t, err)
	require.Len(t, files, 1)

	out := s.exec(exitDone, append(at, "--out", "-")...).stdout
	s.stdin = out
	assert.Regexp(t, `(?m)^operators\s+1$`, s.exec(exitDone, "backup", "verify", "-").stdout)
	s.stdin = strings.Replace(out, `"c1"`, `"c9"`, 1)
	damaged := s.exec(exitFound, "backup", "verify", "-")
	assert.Contains(t, damaged.stderr, "the backup is damaged")
	s.exec(exitFound, "restore", "-", "--data-dir", filepath.Join(here, "none"))
	require.NoError(t, os.WriteFile("damaged", []byte(s.stdin), 0o600))
	s.exec(exitFound, "restore", "damaged", "--data-dir", filepath.Join(here, "nothing"))
	assert.NoDirExists(t, "nothing")
	s.exec(exitFailed, "backup", "verify", "missing")
	s.exec(exitUsage, "backup", "verify")
	s.exec(exitUsage, "backup", "now")
	s.exec(exitFailed, "backup", "--data-dir", filepath.Join(here, "empty"))
	assert.NoDirExists(t, "empty")

	identity, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile("key", []byte(identity.String()+"\n"), 0o600))
	sealed := s.exec(exitDone, append(at, "--out", "sealed.age", "--encrypt-to", identity.Recipient().String())...)
	assert.Empty(t, sealed.stderr)
	content, err := os.ReadFile("sealed.age")
	require.NoError(t, err)
	assert.NotContains(t, string(content), "op-eu")
	assert.Contains(t, s.exec(exitUsage, "backup", "verify", "sealed.age").stderr, "--identity")
	var result backupResult
	require.NoError(t, json.Unmarshal([]byte(s.exec(exitDone, "backup", "verify", "sealed.age", "--identity", "key", "-o", "json").stdout), &result))
	assert.Equal(t, "op-eu", result.Heads[0].OperatorID)
	s.exec(exitUsage, append(at, "--out", "x", "--encrypt-to", "me")...)
	assert.NoFileExists(t, "x", "what fails leaves nothing")
	s.exec(exitDone, "restore", "sealed.age", "--identity", "key", "--data-dir", "back")
	again := s.exec(exitFailed, "restore", "sealed.age", "--identity", "key", "--data-dir", "back")
	assert.Contains(t, again.stderr, "never overwrites")
	left, err := filepath.Glob(".ikhnos-*")
	require.NoError(t, err)
	assert.Empty(t, left)

	assert.Contains(t, s.exec(exitDone, "audit", "list", "--since", "1h", "-o", "json").stdout, "sender-connected", "the server works on")
}

// TestOfflineVerify: an entry changed in the database itself is found, beside a
// server and without one.
func TestOfflineVerify(t *testing.T) {
	dir := t.TempDir()
	s, _, senders := newFleet(t, dir)
	head := strings.Fields(s.exec(exitDone, "ledger", "head", "op-eu").stdout)
	s.env.vars["IKHNOS_DATA_DIR"] = dir
	assert.Contains(t, s.exec(exitDone, "ledger", "verify").stdout, "ok", "the environment says where the data is")
	delete(s.env.vars, "IKHNOS_DATA_DIR")
	at := []string{"ledger", "verify", "op-eu", "--data-dir", dir}
	s.exec(exitDone, append(at, "--head", head[2])...)
	s.exec(exitFound, append(at, "--head", strings.Repeat("0", 64))...)
	s.exec(exitUsage, "ledger", "verify", "--data-dir", dir, "--head", head[2])
	s.exec(exitFound, "ledger", "verify", "op-none", "--data-dir", dir)
	s.exec(exitFailed, append(at, "--head", "nofile")...)
	for name, content := range map[string]string{"empty": "", "words": "a b", "number": "op-eu x " + head[2], "hash": "op-eu 1 zz", "json": `{"heads":[]}`} {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		s.exec(exitUsage, append(at, "--head", path)...)
	}
	s.stop()
	s.exec(exitDone, at...)

	database := filepath.Join(dir, "ikhnos.db")
	content, err := os.ReadFile(database)
	require.NoError(t, err)
	serial := []byte(senders["c1"].serial)
	require.NoError(t, os.WriteFile(database, bytes.ReplaceAll(content, serial, bytes.Repeat([]byte("a"), len(serial))), 0o600))
	s.exec(exitFound, at...)
	require.NoError(t, os.WriteFile(database, []byte("this is no database at all"), 0o600))
	s.exec(exitFailed, at...)
}

// TestPassphrase: keys that were plain are sealed, the old passphrase opens
// nothing any more, and what it opened is in none of the files.
func TestPassphrase(t *testing.T) {
	dir, files := t.TempDir(), t.TempDir()
	one, two := filepath.Join(files, "one"), filepath.Join(files, "two")
	require.NoError(t, os.WriteFile(one, []byte("first passphrase\n"), 0o600))
	require.NoError(t, os.WriteFile(two, []byte("second passphrase\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(files, "blank"), []byte(" \n"), 0o600))
	s, _, senders := newFleet(t, dir)
	check := []string{"passphrase", "check", "--data-dir", dir}
	change := []string{"passphrase", "change", "--data-dir", dir, "--new-file"}
	assert.Contains(t, s.exec(exitFailed, append(change, one)...).stderr, "in use by another ikhnos server")
	assert.Contains(t, s.exec(exitFailed, check...).stderr, "in use by another ikhnos server")
	s.stop()

	assert.Contains(t, s.exec(exitDone, check...).stdout, "the keys of 1 operator and of the server open")
	s.exec(exitFound, append(check, "--passphrase-file", one)...)
	s.exec(exitUsage, "passphrase", "change", "--data-dir", dir)
	s.exec(exitUsage, append(change, filepath.Join(files, "blank"))...)
	s.exec(exitDone, append(change, one)...)
	s.exec(exitFound, check...)
	s.exec(exitFound, append(check, "--passphrase-file", two)...)
	s.exec(exitDone, append(check, "--passphrase-file", one)...)
	s.exec(exitFailed, append(change, two, "--passphrase-file", two)...)
	sealed := storedKeys(t, dir)
	s.exec(exitDone, append(change, two, "--passphrase-file", one)...)
	s.exec(exitFound, append(check, "--passphrase-file", one)...)
	for _, name := range []string{"ikhnos.db", "ikhnos.db-wal"} {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if os.IsNotExist(err) {
			continue
		}
		require.NoError(t, err)
		for _, key := range sealed {
			assert.NotContains(t, string(content), string(key), "%s holds a key that the old passphrase opens", name)
		}
	}

	s.start(dir, func(c *serverConfig) { c.passphrase = []byte("second passphrase") })
	s.renewed(senders["c1"])
	file := filepath.Join(files, "b")
	assert.Contains(t, s.exec(exitDone, "backup", "--data-dir", dir, "--passphrase-file", two, "--out", file).stdout, "sealed")
	s.exec(exitFailed, "backup", "--data-dir", dir, "--passphrase-file", one, "--out", file)
	back := s.exec(exitDone, "restore", file, "--data-dir", filepath.Join(files, "back"), "--passphrase-file", one)
	assert.Contains(t, back.stderr, "does not open its keys")
	s.exec(exitFailed, "passphrase", "check", "--data-dir", filepath.Join(dir, "typo"))
}

// storedKeys are the sealed keys as a backup holds them.
func storedKeys(t *testing.T, dir string) (keys [][]byte) {
	t.Helper()
	m := newMachine(t, nil)
	m.env.now = time.Now
	for line := range strings.Lines(m.ok("backup", "--data-dir", dir, "--out", "-")) {
		var row []any
		if !strings.HasPrefix(line, `["server_ca_key"`) && !strings.HasPrefix(line, `["op-eu","default"`) {
			continue
		}
		require.NoError(t, json.Unmarshal([]byte(line), &row))
		for _, cell := range row {
			if object, ok := cell.(map[string]any); ok {
				raw, err := json.Marshal(object["b64"])
				require.NoError(t, err)
				var content []byte
				require.NoError(t, json.Unmarshal(raw, &content))
				if content[0] == 1 { // sealed
					keys = append(keys, content)
				}
			}
		}
	}
	require.Len(t, keys, 2)
	return keys
}

// TestPostgresCommands: the same commands on PostgreSQL.
func TestPostgresCommands(t *testing.T) {
	base := os.Getenv("CONTINUUM_TEST_POSTGRES")
	if base == "" {
		t.Skip("CONTINUUM_TEST_POSTGRES holds no URL of a PostgreSQL whose user may create databases")
	}
	one, two := freshDatabase(t, base, "clitest_one"), freshDatabase(t, base, "clitest_two")
	dir := t.TempDir()
	s := &site{machine: newMachine(t, nil)}
	s.env.now = s.now
	on := func(database string) func(*serverConfig) {
		return func(c *serverConfig) { c.databaseURL = database }
	}
	s.start(dir, on(one))
	s.env.vars["IKHNOS_TOKEN"] = strings.TrimSpace(s.ok("admin-token", "show-initial", "--data-dir", dir))
	s.exec(exitDone, "operator", "create", "EU", "--id", "op-eu", "--role", "central")
	urls := t.TempDir()
	at := func(name, database string) []string {
		path := filepath.Join(urls, name)
		require.NoError(t, os.WriteFile(path, []byte(database+"\n"), 0o600))
		return []string{"--database-url-file", path}
	}
	first, second := at("one", one), at("two", two)
	file, passphrase := filepath.Join(urls, "b.jsonl"), filepath.Join(urls, "passphrase")
	require.NoError(t, os.WriteFile(passphrase, []byte("secret"), 0o600))
	s.exec(exitDone, append(first, "backup", "--out", file)...)
	s.exec(exitDone, append(first, "ledger", "verify")...)
	for _, command := range [][]string{{"restore", file}, {"ledger", "new-epoch"}, {"passphrase", "check"}, {"passphrase", "change", "--new-file", passphrase}} {
		r := s.exec(exitFailed, append(command, first...)...)
		assert.Contains(t, r.stderr, "the database is in use by another ikhnos", command)
	}
	s.stop()
	s.wait(time.Minute)
	assert.Contains(t, s.exec(exitFailed, append(first, "restore", file)...).stderr, "never overwrites")
	s.exec(exitFailed, append(second, "ledger", "new-epoch")...)
	s.exec(exitDone, append(second, "restore", file)...)
	s.exec(exitDone, append(second, "passphrase", "change", "--new-file", passphrase)...)
	s.exec(exitDone, append(second, "passphrase", "check", "--passphrase-file", passphrase)...)
	s.exec(exitDone, append(second, "ledger", "new-epoch")...)
	s.start(dir, on(two), func(c *serverConfig) { c.passphrase = []byte("secret") })
	assert.Contains(t, s.exec(exitFound, "status").stdout, "op-eu recovering")
	s.exec(exitDone, append(second, "ledger", "verify")...)
}

// freshDatabase makes an empty database for one test and returns its URL.
func freshDatabase(t *testing.T, base, name string) string {
	ctx := context.Background() // the clean-up outlives the test's own
	run := func(query string) {
		conn, err := pgx.Connect(ctx, base)
		require.NoError(t, err)
		defer func() { require.NoError(t, conn.Close(ctx)) }()
		_, err = conn.Exec(ctx, query)
		require.NoError(t, err)
	}
	run("DROP DATABASE IF EXISTS " + name)
	run("CREATE DATABASE " + name)
	t.Cleanup(func() { run("DROP DATABASE " + name + " WITH (FORCE)") })
	u, err := url.Parse(base)
	require.NoError(t, err)
	u.Path = "/" + name
	return u.String()
}

// FuzzParseHeads: what passes has heads with whole hashes.
func FuzzParseHeads(f *testing.F) {
	f.Add([]byte("op-eu 1 " + strings.Repeat("a", 64) + "\n"))
	f.Add([]byte(`{"operatorId":"op-eu","sequence":1,"hash":"x","heads":[]}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		heads, err := parseHeads(content)
		if err != nil {
			return
		}
		for _, head := range heads {
			if len(head.Hash) != 64 {
				t.Fatalf("took half a hash: %q", content)
			}
		}
		if len(heads) == 0 {
			t.Fatalf("took nothing for a head: %q", content)
		}
	})
}
