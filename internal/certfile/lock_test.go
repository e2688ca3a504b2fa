// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certfile

import (
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/internal/testpki"
)

// readOnly is a disk that is mounted so: even to remove nothing is refused.
type readOnly struct{}

func (readOnly) mkdir(string) error                      { return syscall.EROFS }
func (readOnly) write(string, []byte, fs.FileMode) error { return syscall.EROFS }
func (readOnly) syncFile(string) error                   { return syscall.EROFS }
func (readOnly) syncDir(string) error                    { return syscall.EROFS }
func (readOnly) symlink(string, string) error            { return syscall.EROFS }
func (readOnly) rename(string, string) error             { return syscall.EROFS }
func (readOnly) removeAll(string) error                  { return syscall.EROFS }

// A good pair is read from a read-only mount, with leftovers or without.
func TestReadOnlyMount(t *testing.T) {
	for name, leave := range map[string]func(dir string) error{
		"no leftovers":     func(string) error { return nil },
		"a temporary link": func(dir string) error { return os.Symlink("..data/tls.crt", filepath.Join(dir, "tls.crt.tmp")) },
		"half a generation": func(dir string) error {
			return os.Mkdir(filepath.Join(dir, "..gen-00000009"), 0o700)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, g := t.TempDir(), newGeneration(t, testpki.NewCA(t, "op-abc"))
			require.NoError(t, Publish(dir, g))
			require.NoError(t, leave(dir))
			got, err := writer{dir: dir, fs: readOnly{}}.recover()
			require.NoError(t, err)
			require.Equal(t, g, got)
			require.ErrorIs(t, writer{dir: dir, fs: readOnly{}}.publish(g), syscall.EROFS)
		})
	}
}

// Several programs keep one directory at once: nobody fails, and everybody reads
// a whole pair at any time.
func TestSeveralPublishers(t *testing.T) {
	ca, dir := testpki.NewCA(t, "op-abc"), t.TempDir()
	require.NoError(t, Publish(dir, newGeneration(t, ca)))
	var programs sync.WaitGroup
	for range 8 {
		g := newGeneration(t, ca)
		programs.Go(func() {
			for range 10 {
				_, err := Recover(dir)
				assert.NoError(t, err)
				assert.NoError(t, SavePending(dir, g.Key))
				assert.NoError(t, Publish(dir, g))
				assert.NoError(t, DropPending(dir, g.Key))
				_, err = Load(dir)
				assert.NoError(t, err)
			}
		})
	}
	programs.Wait()
	_, err := read(dir)
	require.NoError(t, err)
	names, err := generations(dir)
	require.NoError(t, err)
	require.Len(t, names, 2)
}

// While one writes, another reads without waiting and without cleaning up.
func TestRecoverDuringAPublish(t *testing.T) {
	dir, g := t.TempDir(), newGeneration(t, testpki.NewCA(t, "op-abc"))
	require.NoError(t, Publish(dir, g))
	unlock := lock(dir)
	unfinished := filepath.Join(dir, "..gen-00000009")
	require.NoError(t, os.Mkdir(unfinished, 0o700))
	got, err := Recover(dir)
	require.NoError(t, err)
	require.Equal(t, g, got)
	require.DirExists(t, unfinished)
	unlock()
	_, err = Recover(dir)
	require.NoError(t, err)
	require.NoDirExists(t, unfinished)
}
