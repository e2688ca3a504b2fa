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
	"strconv"
	"strings"
)

// Publish puts g in force in dir, which is made when it is missing. When it
// returns nil, g is durable; after an error, or a power cut, the directory holds
// what it held before or g.
func Publish(dir string, g *Generation) error {
	return newWriter(dir).publish(g)
}

// Recover makes a directory that a crash or a damaged disk left behind usable
// again: leftovers are removed, and when the generation in force is damaged the
// one before it is put in force. It then loads like [Load].
//
// Leftovers that cannot be removed, as on a read-only mount, stay: they are in
// nobody's way. While another program publishes, nothing is known to be one.
func Recover(dir string) (*Generation, error) {
	return newWriter(dir).recover()
}

func (w writer) recover() (*Generation, error) {
	unlock, free := TryLock(w.dir)
	defer unlock()
	if !free {
		return Load(w.dir)
	}
	g, folder, err := load(w.dir)
	if err != nil {
		return nil, err
	}
	if folder == "" || !strings.HasPrefix(folder, generationPrefix) {
		return g, nil // plain files, or a mount that is not ours to change
	}
	if w.target() != folder {
		if err := w.swap(folder); err != nil {
			return nil, fmt.Errorf("putting the previous certificate in force: %w", err)
		}
	}
	if err := w.link(); err != nil {
		return nil, err
	}
	_ = w.clean(folder)
	return g, nil
}

// writer publishes generations through a filesystem.
type writer struct {
	dir string
	fs  filesystem
}

func newWriter(dir string) writer { return writer{dir: dir, fs: storage} }

// publish is a recipe whose order is the safety.
func (w writer) publish(g *Generation) error {
	if err := g.Check(); err != nil {
		return fmt.Errorf("publishing a certificate: %w", err)
	}
	// 1. The directory, for us alone, and no leftovers in the way.
	if err := w.makeDirectory(w.dir); err != nil {
		return fmt.Errorf("making the certificate directory: %w", err)
	}
	defer lock(w.dir)()
	if err := w.clean(w.target()); err != nil {
		return err
	}
	// 2. Plain files become the generation before this one, under links.
	if err := w.convert(); err != nil {
		return fmt.Errorf("turning plain files into links: %w", err)
	}
	// 3. The new generation, durable before anything refers to it.
	folder, err := w.writeGeneration(g)
	if err != nil {
		return fmt.Errorf("writing a certificate: %w", err)
	}
	// 4. The one swap, durable before we say so.
	previous := w.target()
	if err := w.swap(folder); err != nil {
		return fmt.Errorf("swapping the certificate: %w", err)
	}
	// 5. The names that programs read, and only two generations.
	if err := w.link(); err != nil {
		return err
	}
	return w.removeGenerations(folder, previous)
}

func (w writer) target() string { return target(w.dir) }

// makeDirectory makes a directory, and those above it, where they are missing.
// Each is durable before something is written into it.
func (w writer) makeDirectory(dir string) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	above := filepath.Dir(dir)
	if above != dir {
		if err := w.makeDirectory(above); err != nil {
			return err
		}
	}
	if err := w.fs.mkdir(dir); err != nil {
		if info, statErr := os.Stat(dir); statErr == nil && info.IsDir() {
			return nil // another program made it meanwhile
		}
		return err
	}
	return w.fs.syncDir(above)
}

// convert makes plain files of a usable set the generation in force.
func (w writer) convert() error {
	g, folder, err := load(w.dir)
	if err != nil || folder != "" {
		return nil // nothing usable that is not a generation already
	}
	if folder, err = w.writeGeneration(g); err != nil {
		return err
	}
	if err := w.swap(folder); err != nil {
		return err
	}
	return w.link()
}

// writeGeneration writes a new folder: files, their sync, the folder's, and that
// of the directory which lists it.
func (w writer) writeGeneration(g *Generation) (string, error) {
	folder, err := w.makeFolder()
	if err != nil {
		return "", err
	}
	for _, file := range []struct {
		name string
		text []byte
		mode fs.FileMode
	}{
		{FileWindow, g.MarshalWindow(), 0o644}, // first: the three below make a set
		{FileCertificate, g.Certificate, 0o644},
		{FileKey, g.Key, 0o600},
		{FileCA, g.CA, 0o644},
	} {
		if len(file.text) == 0 {
			continue
		}
		path := filepath.Join(w.dir, folder, file.name)
		if err := w.fs.write(path, file.text, file.mode); err != nil {
			return "", err
		}
		if err := w.fs.syncFile(path); err != nil {
			return "", err
		}
	}
	if err := w.fs.syncDir(filepath.Join(w.dir, folder)); err != nil {
		return "", err
	}
	return folder, w.fs.syncDir(w.dir)
}

// makeFolder makes the folder with the next number. Where there are no locks
// another program may write at the same time, so a number that is taken is passed
// over.
func (w writer) makeFolder() (string, error) {
	names, err := generations(w.dir)
	if err != nil {
		return "", err
	}
	number := 0
	if len(names) > 0 {
		number, _ = strconv.Atoi(strings.TrimPrefix(names[len(names)-1], generationPrefix))
	}
	for {
		number++
		folder := fmt.Sprintf("%s%08d", generationPrefix, number)
		if err := w.fs.mkdir(filepath.Join(w.dir, folder)); !errors.Is(err, fs.ErrExist) {
			return folder, err
		}
	}
}

// swap puts a folder in force by one rename.
func (w writer) swap(folder string) error {
	if err := w.replaceLink(folder, current); err != nil {
		return err
	}
	return w.fs.syncDir(w.dir)
}

// link makes the names that programs read links into the folder in force.
func (w writer) link() error {
	changed := false
	for _, name := range links {
		want := filepath.Join(current, name)
		if got, err := os.Readlink(filepath.Join(w.dir, name)); err == nil && got == want {
			continue
		}
		if err := w.replaceLink(want, name); err != nil {
			return fmt.Errorf("linking %s: %w", name, err)
		}
		changed = true
	}
	if !changed {
		return nil
	}
	return w.fs.syncDir(w.dir)
}

func (w writer) replaceLink(target, name string) error {
	path := filepath.Join(w.dir, name)
	if err := w.remove(path + temporarySuffix); err != nil {
		return err
	}
	if err := w.fs.symlink(target, path+temporarySuffix); err != nil {
		return err
	}
	return w.fs.rename(path+temporarySuffix, path)
}

// clean removes what an interrupted writer left: temporary names, and folders
// other than the one in force and the one before it. Without one in force
// nothing is known to be a leftover.
func (w writer) clean(inForce string) error {
	for _, name := range append(slices.Clone(links), current, FilePending) {
		if err := w.remove(filepath.Join(w.dir, name+temporarySuffix)); err != nil {
			return fmt.Errorf("removing a leftover: %w", err)
		}
	}
	names, err := generations(w.dir)
	if err != nil || inForce == "" {
		return err
	}
	previous := ""
	for _, name := range names {
		if name < inForce {
			previous = name
		}
	}
	return w.removeGenerations(inForce, previous)
}

// remove removes what exists: a read-only mount refuses even to remove nothing.
func (w writer) remove(path string) error {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return w.fs.removeAll(path)
}

func (w writer) removeGenerations(keep ...string) error {
	names, err := generations(w.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if slices.Contains(keep, name) {
			continue
		}
		if err := w.fs.removeAll(filepath.Join(w.dir, name)); err != nil {
			return fmt.Errorf("removing an old certificate: %w", err)
		}
	}
	return nil
}
