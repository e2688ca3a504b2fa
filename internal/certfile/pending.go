// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

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
	if err := newWriter(dir).savePending(keyPEM); err != nil {
		return fmt.Errorf("keeping the pending key: %w", err)
	}
	return nil
}

func (w writer) savePending(keyPEM []byte) error {
	if err := w.makeDirectory(w.dir); err != nil {
		return err
	}
	defer lock(w.dir)()
	path := filepath.Join(w.dir, FilePending)
	if err := w.remove(path + temporarySuffix); err != nil {
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
	defer lock(dir)()
	text, err := Pending(dir)
	if err != nil || text == nil || !bytes.Equal(text, keyPEM) {
		return err
	}
	// Not synced: a key that comes back is known to be in use, or is refused again.
	if err := newWriter(dir).remove(filepath.Join(dir, FilePending)); err != nil {
		return fmt.Errorf("removing the pending key: %w", err)
	}
	return nil
}
