// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// ErrPowerCut is what every step returns once the power went away.
var ErrPowerCut = errors.New("power cut")

// Loss says what of the steps before a power cut, or a kill, is gone after it.
type Loss string

// A kill loses nothing. A power cut may lose what nobody synced: changes to
// directories, and the content of files or its second half.
const (
	LosesNothing Loss = "nothing lost"
	LosesContent Loss = "unsynced lost"
	LosesHalf    Loss = "half of it lost"
)

// Losses are all of them.
var Losses = []Loss{LosesNothing, LosesContent, LosesHalf}

// unsynced is a disk that never syncs, because that takes long and these tests
// cut no real power.
type unsynced struct{ disk }

func (unsynced) syncFile(string) error { return nil }
func (unsynced) syncDir(string) error  { return nil }

// WithoutSync makes every writer of this package go without syncs until the test
// ends.
func WithoutSync(t *testing.T) {
	storage = unsynced{}
	t.Cleanup(func() { storage = disk{} })
}

// Failing is a disk whose power goes away after a number of steps.
type Failing struct {
	unsynced
	steps int // left
	kept  int
	pages map[string]bool // files whose content is not durable yet
	undo  []undo          // directory changes that are not durable yet, oldest first
}

type undo struct {
	dir  string
	back func() error
}

// NewFailing is a disk that takes that many steps.
func NewFailing(steps int) *Failing { return &Failing{steps: steps, pages: map[string]bool{}} }

// Use makes every writer of this package write to f while do runs.
func (f *Failing) Use(do func()) {
	before := storage
	storage = f
	defer func() { storage = before }()
	do()
}

// Step counts one step, also of something that is no disk.
func (f *Failing) Step() error {
	if f.steps--; f.steps < 0 {
		return ErrPowerCut
	}
	return nil
}

// Cut reports whether the power went away.
func (f *Failing) Cut() bool { return f.steps < 0 }

func (f *Failing) changed(path string, back func() error) {
	f.undo = append(f.undo, undo{filepath.Dir(path), back})
}

func (f *Failing) mkdir(path string) error {
	if err := f.Step(); err != nil {
		return err
	}
	err := f.unsynced.mkdir(path)
	if err == nil {
		f.changed(path, func() error { return os.RemoveAll(path) })
	}
	return err
}

func (f *Failing) write(path string, data []byte, mode fs.FileMode) error {
	if err := f.Step(); err != nil {
		return err
	}
	f.pages[path] = true
	f.changed(path, func() error { return os.RemoveAll(path) })
	return f.unsynced.write(path, data, mode)
}

func (f *Failing) syncFile(path string) error {
	if err := f.Step(); err != nil {
		return err
	}
	delete(f.pages, path)
	return nil
}

func (f *Failing) syncDir(path string) error {
	if err := f.Step(); err != nil {
		return err
	}
	f.undo = slices.DeleteFunc(f.undo, func(u undo) bool { return u.dir == path })
	return nil
}

func (f *Failing) symlink(target, path string) error {
	if err := f.Step(); err != nil {
		return err
	}
	f.changed(path, func() error { return os.RemoveAll(path) })
	return f.unsynced.symlink(target, path)
}

func (f *Failing) rename(from, to string) error {
	if err := f.Step(); err != nil {
		return err
	}
	// Keep what is replaced as a hard link (a link of a link, too), to bring back.
	kept := f.keep(to)
	had := os.Link(to, kept) == nil
	f.changed(to, func() error {
		if had {
			return os.Rename(kept, to)
		}
		return os.Remove(to)
	})
	if f.pages[from] {
		delete(f.pages, from)
		f.pages[to] = true
	}
	return f.unsynced.rename(from, to)
}

func (f *Failing) removeAll(path string) error {
	if err := f.Step(); err != nil {
		return err
	}
	kept := f.keep(path)
	f.changed(path, func() error { return os.Rename(kept, path) })
	return f.unsynced.rename(path, kept)
}

// keep is a place beside the directory, on the same disk.
func (f *Failing) keep(path string) string {
	f.kept++
	return filepath.Join(filepath.Dir(filepath.Dir(path)), fmt.Sprintf("kept-%d", f.kept))
}

// Lose drops what was not durable when the power went.
func (f *Failing) Lose(t *testing.T, loss Loss) {
	if loss == LosesNothing {
		return
	}
	for path := range f.pages {
		if info, err := os.Lstat(path); err == nil {
			left := int64(0)
			if loss == LosesHalf {
				left = info.Size() / 2
			}
			require.NoError(t, os.Truncate(path, left))
		}
	}
	for _, u := range slices.Backward(f.undo) {
		if err := u.back(); !errors.Is(err, fs.ErrNotExist) {
			require.NoError(t, err)
		}
	}
}
