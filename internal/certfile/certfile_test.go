// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certfile

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/testpki"
)

var renewAfter = time.Date(2026, 12, 10, 12, 0, 0, 0, time.UTC)

func newGeneration(t testing.TB, ca *testpki.CA) *Generation {
	leaf := ca.Sender(t, controlapi.KindCluster, "c1")
	g := New(leaf.CertPEM, leaf.KeyPEM, ca.PEM)
	g.RenewAfter, g.RenewBy = renewAfter, renewAfter.Add(48*time.Hour)
	return g
}

func TestPublishAndLoad(t *testing.T) {
	ca, dir := testpki.NewCA(t, "op-abc"), filepath.Join(t.TempDir(), "with space", "receiver")
	_, err := Load(dir)
	require.ErrorIs(t, err, fs.ErrNotExist)

	var published []*Generation
	for range 4 {
		g := newGeneration(t, ca)
		require.NoError(t, Publish(dir, g))
		published = append(published, g)
		got, err := Load(dir)
		require.NoError(t, err)
		require.Equal(t, g, got)
	}
	names, err := generations(dir)
	require.NoError(t, err)
	require.Len(t, names, 2, "two generations are kept")
	previous, err := read(filepath.Join(dir, names[0]))
	require.NoError(t, err)
	require.Equal(t, published[2], previous)

	for name, mode := range map[string]fs.FileMode{"": 0o700, "tls.crt": 0o644, "ca.crt": 0o644, "tls.key": 0o600} {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode().Perm(), name)
	}
	require.True(t, Swapped(dir))

	leaf, err := published[3].Leaf()
	require.NoError(t, err)
	signer, err := published[3].Signer()
	require.NoError(t, err)
	require.Equal(t, leaf.PublicKey, signer.Public())
}

// trap-9: a pair that does not belong together is neither published nor loaded.
func TestMixedPair(t *testing.T) {
	ca, dir := testpki.NewCA(t, "op-abc"), t.TempDir()
	a, b := newGeneration(t, ca), newGeneration(t, ca)
	mixed := New(a.Certificate, b.Key, ca.PEM)
	require.ErrorIs(t, Publish(dir, mixed), ErrDamaged)
	require.ErrorIs(t, Publish(dir, New(a.Certificate, a.Key, nil)), ErrDamaged)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)

	ca.Sender(t, controlapi.KindCluster, "c1").WriteDir(t, dir, ca)
	require.NoError(t, os.WriteFile(filepath.Join(dir, FileKey), b.Key, 0o600))
	_, err = Load(dir)
	require.ErrorIs(t, err, ErrDamaged)
	require.NotContains(t, err.Error(), "PRIVATE KEY")
}

// Three plain files of another program count, and become links at the next
// publish without a moment of a mixed pair.
func TestPlainFiles(t *testing.T) {
	ca, dir := testpki.NewCA(t, "op-abc"), t.TempDir()
	plain := ca.Sender(t, controlapi.KindCluster, "c1")
	plain.WriteDir(t, dir, ca)
	g, err := Load(dir)
	require.NoError(t, err)
	require.Equal(t, plain.CertPEM, g.Certificate)
	require.True(t, g.RenewAfter.IsZero())
	require.False(t, Swapped(dir))
	_, err = Recover(dir)
	require.NoError(t, err)
	require.False(t, Swapped(dir), "plain files are left alone until there is something to publish")

	next := newGeneration(t, ca)
	require.NoError(t, Publish(dir, next))
	for _, name := range links {
		target, err := os.Readlink(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, "..data/"+name, target)
	}
	got, err := Load(dir)
	require.NoError(t, err)
	require.Equal(t, next, got)
	names, err := generations(dir)
	require.NoError(t, err)
	require.Len(t, names, 2, "the plain files are the generation before")

	// Somebody replaces the links with files again: those count.
	for _, name := range links {
		require.NoError(t, os.Remove(filepath.Join(dir, name)))
	}
	again := ca.Sender(t, controlapi.KindCluster, "c1")
	again.WriteDir(t, dir, ca)
	got, err = Load(dir)
	require.NoError(t, err)
	require.Equal(t, again.CertPEM, got.Certificate)
	// One of the three alone is a mixed pair, and the swapped set stays in force.
	require.NoError(t, os.WriteFile(filepath.Join(dir, FileKey), plain.KeyPEM, 0o600))
	got, err = Load(dir)
	require.NoError(t, err)
	require.Equal(t, next.Certificate, got.Certificate)
}

func TestDamagedFallsBack(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, folder string){
		"empty certificate": func(t *testing.T, folder string) {
			require.NoError(t, os.Truncate(filepath.Join(folder, FileCertificate), 0))
		},
		"half a key":     func(t *testing.T, folder string) { require.NoError(t, os.Truncate(filepath.Join(folder, FileKey), 40)) },
		"no CA":          func(t *testing.T, folder string) { require.NoError(t, os.Remove(filepath.Join(folder, FileCA))) },
		"folder is gone": func(t *testing.T, folder string) { require.NoError(t, os.RemoveAll(folder)) },
		"endless file": func(t *testing.T, folder string) {
			require.NoError(t, os.Truncate(filepath.Join(folder, FileCA), maxFileBytes+1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			ca, dir := testpki.NewCA(t, "op-abc"), t.TempDir()
			first, second := newGeneration(t, ca), newGeneration(t, ca)
			require.NoError(t, Publish(dir, first))
			require.NoError(t, Publish(dir, second))
			w := writer{dir: dir}
			damage(t, filepath.Join(dir, w.target()))
			got, err := Load(dir)
			require.NoError(t, err)
			require.Equal(t, first, got)

			got, err = Recover(dir)
			require.NoError(t, err)
			require.Equal(t, first, got)
			text, err := os.ReadFile(filepath.Join(dir, FileCertificate))
			require.NoError(t, err)
			require.Equal(t, first.Certificate, text, "programs read what Recover put in force")

			damage(t, filepath.Join(dir, w.target()))
			_, err = Load(dir)
			require.Error(t, err)
			require.NoError(t, Publish(dir, second), "a damaged directory takes a new one")
			got, err = Load(dir)
			require.NoError(t, err)
			require.Equal(t, second, got)
		})
	}
}

// trap-16: byte order mark, CRLF, trailing newlines, further certificates, text.
func TestPEMForms(t *testing.T) {
	ca := testpki.NewCA(t, "op-abc")
	leaf := ca.Sender(t, controlapi.KindCluster, "c1")
	crlf := func(text []byte) []byte { return bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n")) }
	join := func(texts ...[]byte) []byte { return bytes.Join(texts, nil) }
	for name, tc := range map[string]struct{ cert, key, ca []byte }{
		"plain":               {leaf.CertPEM, leaf.KeyPEM, ca.PEM},
		"byte order mark":     {join([]byte("\xef\xbb\xbf"), leaf.CertPEM), join([]byte("\xef\xbb\xbf"), leaf.KeyPEM), join([]byte("\xef\xbb\xbf"), ca.PEM)},
		"CRLF":                {crlf(leaf.CertPEM), crlf(leaf.KeyPEM), crlf(ca.PEM)},
		"trailing newlines":   {join(leaf.CertPEM, []byte("\n\n")), join(leaf.KeyPEM, []byte("\n")), join(ca.PEM, []byte("\n \n"))},
		"no trailing newline": {bytes.TrimSpace(leaf.CertPEM), bytes.TrimSpace(leaf.KeyPEM), bytes.TrimSpace(ca.PEM)},
		"chain in tls.crt":    {join(leaf.CertPEM, ca.PEM), leaf.KeyPEM, ca.PEM},
		"bundle in ca.crt":    {leaf.CertPEM, leaf.KeyPEM, join(ca.PEM, testpki.NewCA(t, "op-b").PEM)},
		"text before":         {join([]byte("subject: c1\n"), leaf.CertPEM), leaf.KeyPEM, ca.PEM},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range map[string][]byte{FileCertificate: tc.cert, FileKey: tc.key, FileCA: tc.ca} {
				require.NoError(t, os.WriteFile(filepath.Join(dir, file), text, 0o600))
			}
			g, err := Load(dir)
			require.NoError(t, err)
			got, err := g.Leaf()
			require.NoError(t, err)
			require.Equal(t, leaf.Cert.Raw, got.Raw)
			require.NotContains(t, string(g.CA), "\r")
		})
	}
}

func TestPendingKey(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	text, err := Pending(dir)
	require.NoError(t, err)
	require.Nil(t, text)
	require.NoError(t, SavePending(dir, []byte("one")))
	require.NoError(t, SavePending(dir, []byte("two")))
	text, err = Pending(dir)
	require.NoError(t, err)
	require.Equal(t, "two", string(text))
	info, err := os.Stat(filepath.Join(dir, FilePending))
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode().Perm())

	require.NoError(t, DropPending(dir, []byte("one")))
	text, _ = Pending(dir)
	require.Equal(t, "two", string(text), "the key of another request stays")
	require.NoError(t, DropPending(dir, []byte("two")))
	require.NoError(t, DropPending(dir, []byte("two")))
	require.NoFileExists(t, filepath.Join(dir, FilePending))
}

// case-5: the form of a Secret mount, swapped by the kubelet again and again.
func TestSecretMount(t *testing.T) {
	ca, dir := testpki.NewCA(t, "op-abc"), t.TempDir()
	for _, name := range links {
		require.NoError(t, os.Symlink("..data/"+name, filepath.Join(dir, name)))
	}
	for _, stamp := range []string{"..2026_11_30_12_00_00.1", "..2026_11_30_12_01_00.2", "..2026_11_30_12_02_00.3"} {
		g := newGeneration(t, ca)
		folder := filepath.Join(dir, stamp)
		require.NoError(t, os.Mkdir(folder, 0o755))
		for file, text := range map[string][]byte{FileCertificate: g.Certificate, FileKey: g.Key, FileCA: g.CA, FileWindow: g.MarshalWindow()} {
			require.NoError(t, os.WriteFile(filepath.Join(folder, file), text, 0o644))
		}
		require.NoError(t, os.Symlink(stamp, filepath.Join(dir, "..data_tmp")))
		require.NoError(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
		got, err := Recover(dir)
		require.NoError(t, err)
		require.Equal(t, g, got)
	}
}

func FuzzParseCertificates(f *testing.F) {
	f.Add(testpki.NewCA(f, "op-abc").PEM)
	f.Add([]byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----"))
	f.Fuzz(func(t *testing.T, text []byte) {
		certs, err := ParseCertificates(text)
		if err == nil {
			require.NotEmpty(t, certs)
			require.Contains(t, string(text), "BEGIN CERTIFICATE")
		}
		_ = New(text, text, text).Check()
	})
}
