// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certfile

import (
	"errors"
	"os"
	"syscall"
)

// lock keeps other programs from writing in dir until unlock, and waits for one
// that does. It locks the directory itself, so there is no lock file, and the end
// of a process unlocks. A filesystem without such locks goes without: every step
// of a writer is safe alone, and a second one then fails at worst.
func lock(dir string) (unlock func()) {
	unlock, _ = flock(dir, syscall.LOCK_EX)
	return unlock
}

// TryLock keeps other programs that ask for it from writing in dir until unlock: free
// is false while one of them does. The end of a process unlocks, and a filesystem
// without such locks is always free.
func TryLock(dir string) (unlock func(), free bool) {
	unlock, err := flock(dir, syscall.LOCK_EX|syscall.LOCK_NB)
	return unlock, !errors.Is(err, syscall.EWOULDBLOCK)
}

func flock(dir string, how int) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return func() {}, err
	}
	for {
		if err = syscall.Flock(int(f.Fd()), how); !errors.Is(err, syscall.EINTR) {
			return func() { _ = f.Close() }, err
		}
	}
}
