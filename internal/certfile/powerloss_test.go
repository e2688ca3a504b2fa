// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/testpki"
)

var errPowerCut = errors.New("power cut")

// failing is a disk whose power goes away after a number of steps. What was not
// synced by then may be lost: the content of files, and changes to directories.
type failing struct {
	disk
	steps    int // left
	unsynced map[string]bool
	undo     []undo // directory changes that are not durable yet, oldest first
}

type undo struct {
	dir  string
	back func() error
}

func (f *failing) step() error {
	if f.steps--; f.steps < 0 {
		return errPowerCut
	}
	return nil
}

func (f *failing) changed(path string, back func() error) {
	f.undo = append(f.undo, undo{filepath.Dir(path), back})
}

func (f *failing) mkdir(path string) error {
	if err := f.step(); err != nil {
		return err
	}
	err := f.disk.mkdir(path)
	if err == nil {
		f.changed(path, func() error { return os.RemoveAll(path) })
	}
	return err
}

func (f *failing) write(path string, data []byte, mode fs.FileMode) error {
	if err := f.step(); err != nil {
		return err
	}
	f.unsynced[path] = true
	f.changed(path, func() error { return os.RemoveAll(path) })
	return f.disk.write(path, data, mode)
}

func (f *failing) syncFile(path string) error {
	if err := f.step(); err != nil {
		return err
	}
	delete(f.unsynced, path)
	return f.disk.syncFile(path)
}

func (f *failing) syncDir(path string) error {
	if err := f.step(); err != nil {
		return err
	}
	f.undo = slices.DeleteFunc(f.undo, func(u undo) bool { return u.dir == path })
	return f.disk.syncDir(path)
}

func (f *failing) symlink(target, path string) error {
	if err := f.step(); err != nil {
		return err
	}
	f.changed(path, func() error { return os.RemoveAll(path) })
	return f.disk.symlink(target, path)
}

func (f *failing) rename(from, to string) error {
	if err := f.step(); err != nil {
		return err
	}
	// Keep what is replaced as a hard link (a link of a link, too), to bring back.
	kept := filepath.Join(filepath.Dir(filepath.Dir(to)), fmt.Sprintf("kept-%d", f.steps))
	had := os.Link(to, kept) == nil
	f.changed(to, func() error {
		if had {
			return os.Rename(kept, to)
		}
		return os.Remove(to)
	})
	return f.disk.rename(from, to)
}

func (f *failing) removeAll(path string) error {
	if err := f.step(); err != nil {
		return err
	}
	return f.disk.removeAll(path)
}

// lose drops everything that was not durable when the power went.
func (f *failing) lose(t *testing.T) {
	for path := range f.unsynced {
		if _, err := os.Lstat(path); err == nil {
			require.NoError(t, os.Truncate(path, 0))
		}
	}
	for _, u := range slices.Backward(f.undo) {
		if err := u.back(); !errors.Is(err, fs.ErrNotExist) {
			require.NoError(t, err)
		}
	}
}

// case-17, trap-9: cut the power after each step of the writer, once with all
// changes on disk and once without those that nobody synced. The old pair or the
// new one is loaded and is what programs read; never a mixture, never nothing;
// and the next publish works.
func TestPowerLoss(t *testing.T) {
	ca := testpki.NewCA(t, "op-abc")
	plain := ca.Sender(t, controlapi.KindCluster, "c1")
	starts := map[string]func(t *testing.T, dir string) *Generation{
		"nothing": func(*testing.T, string) *Generation { return nil },
		"plain files": func(t *testing.T, dir string) *Generation {
			plain.WriteDir(t, dir, ca)
			return New(plain.CertPEM, plain.KeyPEM, ca.PEM)
		},
		"one generation": func(t *testing.T, dir string) *Generation {
			g := newGeneration(t, ca)
			require.NoError(t, Publish(dir, g))
			return g
		},
		"two generations": func(t *testing.T, dir string) *Generation {
			require.NoError(t, Publish(dir, newGeneration(t, ca)))
			g := newGeneration(t, ca)
			require.NoError(t, Publish(dir, g))
			return g
		},
	}
	for name, start := range starts {
		for _, lossy := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, unsynced lost %v", name, lossy), func(t *testing.T) {
				next := newGeneration(t, ca)
				for steps := 0; ; steps++ {
					if !cutAfter(t, start, next, steps, lossy) {
						require.Greater(t, steps, 10)
						return
					}
				}
			})
		}
	}
}

// cutAfter reports whether the power went before the publish was done.
func cutAfter(t *testing.T, start func(*testing.T, string) *Generation, next *Generation, steps int, lossy bool) bool {
	dir := filepath.Join(t.TempDir(), "certs")
	require.NoError(t, os.Mkdir(dir, 0o700))
	old := start(t, dir)
	f := &failing{steps: steps, unsynced: map[string]bool{}}
	err := writer{dir: dir, fs: f}.publish(next)
	if lossy {
		f.lose(t)
	}
	if err == nil {
		got, err := Load(dir)
		require.NoError(t, err)
		require.Equal(t, next, got, "what Publish confirmed is durable")
	} else {
		require.ErrorIs(t, err, errPowerCut)
	}

	got, loadErr := Recover(dir)
	if old == nil && loadErr != nil {
		require.ErrorIs(t, loadErr, errNothing(loadErr), "after %d steps", steps)
	} else {
		require.NoError(t, loadErr, "after %d steps", steps)
		require.True(t, reflect.DeepEqual(got, old) || reflect.DeepEqual(got, next), "neither old nor new after %d steps", steps)
		seen, err := read(dir)
		require.NoError(t, err, "after %d steps", steps)
		require.Equal(t, got, withWindow(seen, got), "after %d steps", steps)
	}
	require.NoError(t, Publish(dir, next))
	got, loadErr = Load(dir)
	require.NoError(t, loadErr)
	require.Equal(t, next, got)
	return err != nil
}

// errNothing: before the first certificate there may be none, or the ruins of it.
func errNothing(err error) error {
	if errors.Is(err, ErrDamaged) {
		return ErrDamaged
	}
	return fs.ErrNotExist
}

// withWindow fills in what is not among the three names that programs read.
func withWindow(seen, from *Generation) *Generation {
	seen.RenewAfter, seen.RenewBy = from.RenewAfter, from.RenewBy
	return seen
}

func TestPowerLossOfThePendingKey(t *testing.T) {
	for steps := range 5 {
		for _, lossy := range []bool{false, true} {
			dir := filepath.Join(t.TempDir(), "certs")
			require.NoError(t, SavePending(dir, []byte("old")))
			f := &failing{steps: steps, unsynced: map[string]bool{}}
			err := writer{dir: dir, fs: f}.savePending([]byte("new"))
			if lossy {
				f.lose(t)
			}
			got, readErr := Pending(dir)
			require.NoError(t, readErr)
			if err == nil {
				require.Equal(t, "new", string(got))
			} else {
				require.Contains(t, []string{"old", "new"}, string(got), "after %d steps", steps)
			}
		}
	}
}
