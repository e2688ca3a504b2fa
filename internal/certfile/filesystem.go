// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certfile

import (
	"errors"
	"io/fs"
	"os"
)

// filesystem is what the writer does to the disk, one durable step each, so that
// a test can cut the power between any two.
type filesystem interface {
	mkdir(path string) error
	write(path string, data []byte, mode fs.FileMode) error // without sync
	syncFile(path string) error
	syncDir(path string) error
	symlink(target, path string) error
	rename(from, to string) error
	removeAll(path string) error
}

// storage is where writers write: the disk, but in tests.
var storage filesystem = disk{}

// disk is the real one.
type disk struct{}

func (disk) mkdir(path string) error { return os.Mkdir(path, 0o700) }

func (disk) write(path string, data []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	// Chmod because the umask would take the readers' bits away.
	return errors.Join(err, f.Chmod(mode), f.Close())
}

func (disk) syncFile(path string) error { return syncPath(path) }
func (disk) syncDir(path string) error  { return syncPath(path) }

func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (disk) symlink(target, path string) error { return os.Symlink(target, path) }
func (disk) rename(from, to string) error      { return os.Rename(from, to) }
func (disk) removeAll(path string) error       { return os.RemoveAll(path) }
