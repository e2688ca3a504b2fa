// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// lockFile is held locked by the server that has the directory open.
const lockFile = "ikhnos.lock"

// lockDir makes the data directory if need be and locks it until the returned
// file is closed or the process ends, however it ends.
func lockDir(dir string) (*os.File, error) {
	if dir == "" {
		return nil, errors.New("no data directory was given")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making data directory %s: %w", dir, err)
	}
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data directory %s is not writable: %w", dir, err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("data directory %s is in use by another ikhnos server", dir)
		}
		return nil, fmt.Errorf("locking data directory %s: %w", dir, err)
	}
	return f, nil
}

// createPrivate makes file if there is none and gives it mode 0600, whatever the
// umask says.
func createPrivate(file string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("data directory %s is not writable: %w", filepath.Dir(file), err)
	}
	defer func() { _ = f.Close() }()
	if err := f.Chmod(0o600); err != nil {
		return fmt.Errorf("making the database private: %w", err)
	}
	return nil
}
