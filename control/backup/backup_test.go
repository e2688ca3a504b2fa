// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package backup_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ikhnos/continuum/control/audit"
	"github.com/ikhnos/continuum/control/backup"
	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/ledger/ledgertest"
	"github.com/ikhnos/continuum/control/pki"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// place is where a store is, on either database.
type place struct {
	name string
	new  func(t *testing.T, clock *ledgertest.Clock) ledger.Options // of an empty place
}

func places(t *testing.T) []place {
	all := []place{{"sqlite", func(t *testing.T, clock *ledgertest.Clock) ledger.Options {
		return ledger.Options{DataDir: t.TempDir(), Now: clock.Now}
	}}}
	base := os.Getenv("CONTINUUM_TEST_POSTGRES")
	if base == "" {
		t.Log("CONTINUUM_TEST_POSTGRES is not set: SQLite alone")
		return all
	}
	n := 0
	return append(all, place{"postgres", func(t *testing.T, clock *ledgertest.Clock) ledger.Options {
		n++
		return ledger.Options{DatabaseURL: freshDatabase(t, base, fmt.Sprintf("backuptest_%d", n)), Now: clock.Now}
	}})
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

func open(t *testing.T, o ledger.Options) *ledger.Store {
	t.Helper()
	s, err := ledger.Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// filled is a store in which every table but sessions has a row, some of them
// with NULL, empty bytes, and text beyond ASCII.
func filled(t *testing.T, o ledger.Options, clock *ledgertest.Clock) *ledgertest.Fixture {
	t.Helper()
	f := ledgertest.New(t, open(t, o), clock)
	f.Operator("op-a", 5*365*24*time.Hour)
	f.Operator("op-b", 5*365*24*time.Hour)
	f.Sender("op-a", "c1")
	f.Sender("op-b", "c1")
	leaf := f.MustEnroll("op-a", ledger.RoleSender, "c1", "k1")
	f.MustEnroll("op-b", ledger.RoleReceiver, "op-b", "k2")
	f.Token("op-a", ledger.RoleSender, "c1")
	f.Exec(`UPDATE operators SET name = $1 WHERE id = 'op-a'`, "Größe <&> \u2028 \"x\" 測定")
	f.Exec(`INSERT INTO admin_tokens (id, org_id, name, role, secret_hash, created_at) VALUES ('adm', $1, 'ann', 'admin', $2, 0)`, ledgertest.Org, []byte{0, 255, 10})
	f.Exec(`INSERT INTO sessions (secret_hash, admin_token_id, csrf, expires_at) VALUES ($1, 'adm', '', 0)`, []byte("session"))
	f.Exec(`INSERT INTO lost_denials (operator_id, kind, value, denied_at) VALUES ('op-a', 'serial', '0a', 0)`)
	f.Exec(`INSERT INTO reports (operator_id, instance, epoch, number, report, reported_at) VALUES ('op-a', 'i', 1, 1, '{}', 0)`)
	f.Exec(`INSERT INTO receipts (id, org_id, subject, epoch, number, committed_at_ms) VALUES ('rcp', $1, '', 1, 1, 1)`, ledgertest.Org)
	f.Exec(`INSERT INTO receipt_instances (receipt_id, operator_id, instance, sender) VALUES ('rcp', 'op-a', 'i', '')`)
	f.Update(func(tx *ledger.Tx) error {
		require.NoError(t, tx.SetSetting("empty", nil))
		require.NoError(t, tx.SetSetting(pki.SettingSealing, []byte(`{"kdf":"none"}`)))
		require.NoError(t, tx.KeepUnknownLeaf("op-a", "0b", []byte{0}))
		require.NoError(t, tx.NoteRefusedRenewal("op-a", leaf.Serial, "key_in_use"))
		require.NoError(t, tx.UseProof("op-a", 9, "jti", clock.Now().Add(time.Hour)))
		require.NoError(t, tx.Audit(audit.Entry{OrgID: ledgertest.Org, Actor: "ann", Event: "e"}))
		_, err := tx.RevokeLeaf("op-a", leaf.Serial, "compromised")
		return err
	})
	return f
}

func write(t *testing.T, s *ledger.Store) ([]byte, *backup.Summary) {
	t.Helper()
	var file bytes.Buffer
	summary, err := backup.Write(t.Context(), s, &file, "1.2.3")
	require.NoError(t, err)
	return file.Bytes(), summary
}

func verify(file []byte) (*backup.Summary, error) {
	r, err := backup.NewReader(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	return r.Verify()
}

func restore(t *testing.T, file []byte, o ledger.Options) (*backup.Summary, ledger.Version, error) {
	t.Helper()
	r, err := backup.NewReader(bytes.NewReader(file))
	require.NoError(t, err)
	o.Alone, o.Schema = true, r.Header().Schema
	s, err := ledger.Open(t.Context(), o)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	return r.Restore(t.Context(), s)
}

// TestRoundTrip: from each database to each, everything is there again but the
// sessions, the chains are right, and what a new epoch starts has started.
func TestRoundTrip(t *testing.T) {
	for _, from := range places(t) {
		for _, to := range places(t) {
			t.Run(from.name+" to "+to.name, func(t *testing.T) {
				clock := ledgertest.NewClock()
				f := filled(t, from.new(t, clock), clock)
				file, written := write(t, f.Store)
				read, err := verify(file)
				require.NoError(t, err)
				assert.Equal(t, written.SHA256, read.SHA256)
				assert.Equal(t, backup.KeysPlain, read.Keys)
				assert.Equal(t, ledgertest.Epoch, read.CreatedAt)
				assert.Equal(t, "1.2.3", read.Program)
				require.Len(t, read.Heads, 2)
				for table, n := range read.Rows {
					assert.NotZero(t, n, "%s: the test has no row of it", table)
				}

				clock.Advance(time.Hour)
				target := to.new(t, clock)
				_, v, err := restore(t, file, target)
				require.NoError(t, err)
				assert.Equal(t, ledger.Version{Epoch: clock.Now().Unix(), Number: written.At.Number + 1}, v)
				back := f
				back.Store = open(t, target)
				for _, id := range []string{"op-a", "op-b"} {
					head, err := back.Store.Verify(t.Context(), id)
					require.NoError(t, err)
					i := slices.IndexFunc(read.Heads, func(h ledger.Head) bool { return h.OperatorID == id })
					assert.Equal(t, read.Heads[i].Sequence+1, head.Sequence, "the event of the epoch")
				}
				assert.Equal(t, 1, back.Audited(audit.BackupRestored))
				again, _ := write(t, back.Store)
				assert.Equal(t, expected(t, file, again), content(again))
				back.MustEnroll("op-a", ledger.RoleSender, "c1", "k9") // it works on
			})
		}
	}
}

// content are the lines of the tables, sorted: databases keep no order.
func content(file []byte) []string {
	lines := strings.Split(strings.TrimSpace(string(file)), "\n")
	return slices.Sorted(slices.Values(lines[1 : len(lines)-1]))
}

// expected are the lines of a backup as a restore changes them: what it adds or
// changes is taken from the backup after it.
func expected(t *testing.T, before, after []byte) []string {
	old, now := map[string]bool{}, content(after)
	for _, line := range content(before) {
		old[line] = true
	}
	added := 0
	for _, line := range now {
		if !old[line] {
			added++
			old[line] = true
		}
	}
	assert.Equal(t, 5, added, "change counter, epoch's start, two events, one audit line")
	lines := slices.Sorted(maps.Keys(old))
	return slices.DeleteFunc(lines, func(line string) bool { // the counter of before
		return strings.HasPrefix(line, "[1,1,")
	})
}

// TestEveryTable: whoever adds a table decides whether a backup holds it.
func TestEveryTable(t *testing.T) {
	clock := ledgertest.NewClock()
	s := open(t, ledger.Options{DataDir: t.TempDir(), Now: clock.Now})
	_, summary := write(t, s)
	tables := []string{"sessions", "goose_db_version", "sqlite_sequence"} // left out on purpose
	tables = slices.AppendSeq(tables, maps.Keys(summary.Rows))
	require.NoError(t, s.View(t.Context(), func(tx *ledger.Tx) error {
		rows, err := tx.Query(`SELECT name FROM sqlite_master WHERE type = 'table'`)
		require.NoError(t, err)
		defer func() { assert.NoError(t, rows.Close()) }()
		for rows.Next() {
			var name string
			require.NoError(t, rows.Scan(&name))
			assert.Contains(t, tables, name)
		}
		return rows.Err()
	}))
}

// TestFlippedByte: a change of any byte, and a cut at any place, is found.
func TestFlippedByte(t *testing.T) {
	clock := ledgertest.NewClock()
	file, _ := write(t, filled(t, ledger.Options{DataDir: t.TempDir(), Now: clock.Now}, clock).Store)
	for i := range file {
		damaged := bytes.Clone(file)
		damaged[i] ^= 1 << (i % 8)
		_, err := verify(damaged)
		require.Error(t, err, "byte %d", i)
	}
	for i := 0; i < len(file); i += 7 {
		_, err := verify(file[:i])
		require.ErrorIs(t, err, backup.ErrDamaged, "cut at %d", i)
	}
	_, err := verify(append(bytes.Clone(file), '\n'))
	require.ErrorIs(t, err, backup.ErrDamaged)
}

// TestForgedChain: a file whose checksum was computed again still does not pass
// with an event changed.
func TestForgedChain(t *testing.T) {
	clock := ledgertest.NewClock()
	f := filled(t, ledger.Options{DataDir: t.TempDir(), Now: clock.Now}, clock)
	f.Exec(`UPDATE events SET event = replace(event, 'compromised', 'retired') WHERE operator_id = 'op-a'`)
	file, _ := write(t, f.Store)
	_, err := verify(file)
	require.ErrorIs(t, err, backup.ErrDamaged)
	require.ErrorContains(t, err, "chain of op-a")
	target := ledger.Options{DataDir: t.TempDir(), Now: clock.Now}
	_, _, err = restore(t, file, target)
	require.ErrorIs(t, err, backup.ErrDamaged)
	_, summary := write(t, open(t, target))
	assert.Zero(t, summary.Rows["organisations"], "nothing was restored")
}

// TestRestoreNeverOverwrites: not even a store that has one setting.
func TestRestoreNeverOverwrites(t *testing.T) {
	for _, p := range places(t) {
		t.Run(p.name, func(t *testing.T) {
			clock := ledgertest.NewClock()
			file, _ := write(t, filled(t, p.new(t, clock), clock).Store)
			target := p.new(t, clock)
			s, err := ledger.Open(t.Context(), target)
			require.NoError(t, err)
			require.NoError(t, s.Update(t.Context(), func(tx *ledger.Tx) error { return tx.SetSetting("mine", []byte("1")) }))
			require.NoError(t, s.Close())
			_, _, err = restore(t, file, target)
			require.ErrorIs(t, err, backup.ErrNotEmpty)
			require.NoError(t, open(t, target).View(t.Context(), func(tx *ledger.Tx) error {
				value, ok, err := tx.Setting("mine")
				assert.True(t, ok)
				assert.Equal(t, "1", string(value))
				return err
			}))
		})
	}
}

// TestAlone: a restore is refused while a server has the database, and a server
// while a restore has it; a backup goes beside both.
func TestAlone(t *testing.T) {
	for _, p := range places(t) {
		t.Run(p.name, func(t *testing.T) {
			o := p.new(t, ledgertest.NewClock())
			alone := o
			alone.Alone = true
			for _, pair := range [][2]ledger.Options{{o, alone}, {alone, o}, {alone, alone}} {
				first, err := ledger.Open(t.Context(), pair[0])
				require.NoError(t, err)
				_, err = ledger.Open(t.Context(), pair[1])
				require.ErrorContains(t, err, "in use by another ikhnos")
				beside, err := ledger.Attach(t.Context(), o)
				require.NoError(t, err)
				write(t, beside)
				require.NoError(t, beside.Close())
				require.NoError(t, first.Close())
			}
		})
	}
}

// TestAttachToNothing makes nothing.
func TestAttachToNothing(t *testing.T) {
	for _, p := range places(t) {
		t.Run(p.name, func(t *testing.T) {
			o := p.new(t, ledgertest.NewClock())
			_, err := ledger.Attach(t.Context(), o)
			require.Error(t, err)
			if o.DataDir != "" {
				left, err := os.ReadDir(o.DataDir)
				require.NoError(t, err)
				assert.Empty(t, left)
			}
		})
	}
}

// TestBesideIssuing: a backup that is written while leaves are issued is one
// state: every entry has its event, and it restores.
func TestBesideIssuing(t *testing.T) {
	for _, p := range places(t) {
		t.Run(p.name, func(t *testing.T) {
			clock := ledgertest.NewClock()
			o := p.new(t, clock)
			f := filled(t, o, clock)
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			var minting sync.Mutex
			for worker := range 4 {
				wg.Go(func() {
					for i := 0; ctx.Err() == nil; i++ {
						minting.Lock()
						token := f.Token("op-a", ledger.RoleReceiver, "op-a")
						minting.Unlock()
						_, err := f.Enroll(token, fmt.Sprint("k", worker, "-", i))
						assert.NoError(t, err)
					}
				})
			}
			beside, err := ledger.Attach(t.Context(), o)
			require.NoError(t, err)
			var last int64
			for range 3 {
				file, summary := write(t, beside)
				assert.GreaterOrEqual(t, summary.Rows["entries"], last)
				last = summary.Rows["entries"]
				target := ledger.Options{DataDir: t.TempDir(), Now: clock.Now}
				_, _, err := restore(t, file, target)
				require.NoError(t, err)
				s, err := ledger.Open(t.Context(), target)
				require.NoError(t, err)
				_, err = s.Verify(t.Context(), "op-a")
				require.NoError(t, err)
				require.NoError(t, s.Close())
			}
			cancel()
			wg.Wait()
			require.NoError(t, beside.Close())
			assert.Greater(t, f.Count("op-a"), int(last)/2)
		})
	}
}

// TestNewer: what a newer program made is left to it.
func TestNewer(t *testing.T) {
	_, err := backup.NewReader(strings.NewReader(`{"format":"ikhnos-backup","version":2}` + "\n"))
	require.ErrorIs(t, err, backup.ErrNewer)
	for _, text := range []string{"", "\n", "{}\n", "hello\n", `{"format":"other"}` + "\n", "[1]\n"} {
		_, err := backup.NewReader(strings.NewReader(text))
		require.ErrorIs(t, err, backup.ErrDamaged, text)
	}
	_, err = ledger.Open(t.Context(), ledger.Options{DataDir: t.TempDir(), Now: time.Now, Schema: 99})
	require.ErrorContains(t, err, "newer ikhnos")
}

func TestEncrypt(t *testing.T) {
	mine, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	other, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	var sealed bytes.Buffer
	w, err := backup.Encrypt(&sealed, []string{other.Recipient().String(), mine.Recipient().String()})
	require.NoError(t, err)
	_, err = io.WriteString(w, "content")
	require.NoError(t, err)
	require.NoError(t, w.Close())
	assert.NotContains(t, sealed.String(), "content")

	read := func(file []byte, identity string) (string, error) {
		var identities []byte
		if identity != "" {
			identities = []byte(identity)
		}
		r, err := backup.Decrypt(bytes.NewReader(file), identities)
		if err != nil {
			return "", err
		}
		content, err := io.ReadAll(r)
		return string(content), err
	}
	got, err := read(sealed.Bytes(), mine.String())
	require.NoError(t, err)
	assert.Equal(t, "content", got)
	_, err = read(sealed.Bytes(), "")
	require.ErrorIs(t, err, backup.ErrEncrypted)
	stranger, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	_, err = read(sealed.Bytes(), stranger.String())
	require.ErrorContains(t, err, "another identity")
	_, err = read(sealed.Bytes(), "AGE-SECRET-KEY-nonsense")
	require.ErrorContains(t, err, "no age private key")
	assert.NotContains(t, err.Error(), "nonsense")
	damaged := bytes.Clone(sealed.Bytes())
	damaged[len(damaged)-1] ^= 1
	_, err = read(damaged, mine.String())
	require.ErrorIs(t, err, backup.ErrDamaged)
	got, err = read([]byte("plain"), "")
	require.NoError(t, err)
	assert.Equal(t, "plain", got)
	_, err = backup.Encrypt(io.Discard, []string{"me"})
	require.Error(t, err)
}

// FuzzVerify: no file makes it panic, and only whole ones pass.
func FuzzVerify(f *testing.F) {
	f.Add([]byte(`{"format":"ikhnos-backup","version":1}` + "\n" + `{"table":"settings","columns":["name","value"]}` + "\n" + `["a",{"b64":"AA=="}]` + "\n"))
	f.Add([]byte(`{"format":"ikhnos-backup","version":1}` + "\n" + `{"table":"events","columns":["operator_id","event","hash"]}` + "\n" + `["a","{}",null]` + "\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		s, err := verify(file)
		if err == nil && len(s.SHA256) != 64 {
			t.Fatal("passed without a checksum")
		}
	})
}
