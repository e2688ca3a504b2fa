// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Names in a certificate directory.
const (
	FileCertificate = "tls.crt"
	FileKey         = "tls.key"
	FileCA          = "ca.crt"
	FileWindow      = "renewal.json"
	FilePending     = "pending.key"

	current          = "..data"
	generationPrefix = "..gen-"
	temporarySuffix  = ".tmp"

	maxFileBytes = 1 << 20
)

var links = []string{FileCertificate, FileKey, FileCA}

// Load reads the generation in force. A damaged one gives way to the one before
// it. The error is fs.ErrNotExist when there is no generation at all, and
// [ErrDamaged] when there are only damaged ones.
func Load(dir string) (*Generation, error) {
	for {
		before := target(dir)
		g, _, err := load(dir)
		if err == nil || target(dir) == before {
			return g, err
		}
		// Others published meanwhile, and removed what we were reading.
	}
}

// target is the folder in force, "" when there is none.
func target(dir string) string {
	target, err := os.Readlink(filepath.Join(dir, current))
	if err != nil {
		return ""
	}
	return filepath.Base(target)
}

// Swapped reports whether the directory is exchanged as one, by us or by a
// kubelet. Plain files and subPath mounts are not.
func Swapped(dir string) bool {
	_, err := os.Readlink(filepath.Join(dir, current))
	return err == nil
}

// load also says in which folder of dir the generation stands; "" for plain files.
func load(dir string) (*Generation, string, error) {
	candidates, err := candidates(dir)
	if err != nil {
		return nil, "", fmt.Errorf("reading the certificate directory: %w", err)
	}
	damage := error(nil)
	for _, folder := range candidates {
		g, err := read(filepath.Join(dir, folder))
		switch {
		case err == nil:
			return g, folder, nil
		case folder == "" && errors.Is(err, fs.ErrNotExist): // no plain files
		case damage == nil && errors.Is(err, ErrDamaged):
			damage = err
		case damage == nil:
			damage = fmt.Errorf("%w: %w", ErrDamaged, err)
		}
	}
	if damage == nil {
		damage = fs.ErrNotExist
	}
	return nil, "", fmt.Errorf("loading the certificate: %w", damage)
}

// candidates lists the folders to try: plain files if somebody put such in place
// of our links, the generation in force, and then the others, newest first.
func candidates(dir string) ([]string, error) {
	names, err := generations(dir)
	if err != nil {
		return nil, err
	}
	slices.Reverse(names)
	target, err := os.Readlink(filepath.Join(dir, current))
	if err != nil {
		return append([]string{""}, names...), nil
	}
	target = filepath.Base(target)
	names = slices.DeleteFunc(names, func(name string) bool { return name >= target })
	names = append([]string{target}, names...)
	for _, name := range links {
		if info, err := os.Lstat(filepath.Join(dir, name)); err == nil && info.Mode().IsRegular() {
			return append([]string{""}, names...), nil
		}
	}
	return names, nil
}

// generations lists the folders of generations, oldest first.
func generations(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, entry := range entries { // sorted by name, which is by age
		if entry.IsDir() && strings.HasPrefix(entry.Name(), generationPrefix) {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// read reads and checks the set of files in one folder.
func read(folder string) (*Generation, error) {
	var texts [3][]byte
	for i, name := range links {
		text, err := readFile(filepath.Join(folder, name))
		if err != nil {
			return nil, err
		}
		texts[i] = text
	}
	g := New(texts[0], texts[1], texts[2])
	if err := g.Check(); err != nil {
		return nil, err
	}
	if text, err := readFile(filepath.Join(folder, FileWindow)); err == nil {
		g.UnmarshalWindow(text)
	}
	return g, nil
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if len(text) > maxFileBytes {
		return nil, fmt.Errorf("%w: %s is too large", ErrDamaged, filepath.Base(path))
	}
	return text, nil
}
