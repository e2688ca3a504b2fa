// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certfile

import (
	"bytes"
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
	return writer{dir: dir, fs: disk{}}.publish(g)
}

// Recover makes a directory that a crash or a damaged disk left behind usable
// again: leftovers are removed, and when the generation in force is damaged the
// one before it is put in force. It then loads like [Load].
func Recover(dir string) (*Generation, error) {
	g, folder, err := load(dir)
	if err != nil {
		return nil, err
	}
	w := writer{dir: dir, fs: disk{}}
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
	return g, w.clean(folder)
}

// writer publishes generations through a filesystem.
type writer struct {
	dir string
	fs  filesystem
}

// publish is a recipe whose order is the safety.
func (w writer) publish(g *Generation) error {
	if err := g.Check(); err != nil {
		return fmt.Errorf("publishing a certificate: %w", err)
	}
	// 1. The directory, and no leftovers in the way.
	if err := os.MkdirAll(w.dir, 0o700); err != nil {
		return fmt.Errorf("making the certificate directory: %w", err)
	}
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

// target is the folder in force, "" when there is none.
func (w writer) target() string {
	target, err := os.Readlink(filepath.Join(w.dir, current))
	if err != nil {
		return ""
	}
	return filepath.Base(target)
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

// makeFolder makes the folder with the next number. Another program may write at
// the same time, so a number that is taken is passed over.
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
	if err := w.fs.removeAll(path + temporarySuffix); err != nil {
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
		if err := w.fs.removeAll(filepath.Join(w.dir, name+temporarySuffix)); err != nil {
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

// Pending returns the key of a request that has no answer yet, nil when there is
// none.
func Pending(dir string) ([]byte, error) {
	text, err := readFile(filepath.Join(dir, FilePending))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the pending key: %w", err)
	}
	return text, nil
}

// SavePending keeps the key of a request before it leaves. When it returns nil
// the key is durable.
func SavePending(dir string, keyPEM []byte) error {
	if err := (writer{dir: dir, fs: disk{}}).savePending(keyPEM); err != nil {
		return fmt.Errorf("keeping the pending key: %w", err)
	}
	return nil
}

func (w writer) savePending(keyPEM []byte) error {
	if err := os.MkdirAll(w.dir, 0o700); err != nil {
		return err
	}
	path := filepath.Join(w.dir, FilePending)
	if err := w.fs.removeAll(path + temporarySuffix); err != nil {
		return err
	}
	if err := w.fs.write(path+temporarySuffix, keyPEM, 0o600); err != nil {
		return err
	}
	if err := w.fs.syncFile(path + temporarySuffix); err != nil {
		return err
	}
	if err := w.fs.rename(path+temporarySuffix, path); err != nil {
		return err
	}
	return w.fs.syncDir(w.dir)
}

// DropPending forgets the pending key if it still is keyPEM.
func DropPending(dir string, keyPEM []byte) error {
	text, err := Pending(dir)
	if err != nil || text == nil || !bytes.Equal(text, keyPEM) {
		return err
	}
	if err := os.Remove(filepath.Join(dir, FilePending)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the pending key: %w", err)
	}
	return nil
}
