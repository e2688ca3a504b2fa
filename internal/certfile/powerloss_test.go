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
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/testpki"
)

// case-17, trap-9: cut the power after each step of the writer, once with all
// changes on disk and once without those that nobody synced. The old pair or the
// new one is loaded and is what programs read; never a mixture, never nothing;
// and the next publish works.
func TestPowerLoss(t *testing.T) {
	WithoutSync(t)
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
		for _, loss := range Losses {
			t.Run(fmt.Sprintf("%s, %s", name, loss), func(t *testing.T) {
				next := newGeneration(t, ca)
				for steps := 0; ; steps++ {
					if !cutAfter(t, start, next, steps, loss) {
						require.Greater(t, steps, 10)
						return
					}
				}
			})
		}
	}
}

// cutAfter reports whether the power went before the publish was done.
func cutAfter(t *testing.T, start func(*testing.T, string) *Generation, next *Generation, steps int, loss Loss) bool {
	dir := filepath.Join(t.TempDir(), "certs")
	require.NoError(t, os.Mkdir(dir, 0o700))
	old := start(t, dir)
	f := NewFailing(steps)
	err := writer{dir: dir, fs: f}.publish(next)
	f.Lose(t, loss)
	if err == nil {
		got, err := Load(dir)
		require.NoError(t, err)
		require.Equal(t, next, got, "what Publish confirmed is durable")
	} else {
		require.ErrorIs(t, err, ErrPowerCut)
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

// The pending key, in a directory that exists and in one that has to be made: a
// request leaves after SavePending returned, so its key is there from then on.
func TestPowerLossOfThePendingKey(t *testing.T) {
	WithoutSync(t)
	for _, had := range []string{"old", ""} {
		for _, loss := range Losses {
			for steps := 0; ; steps++ {
				dir := filepath.Join(t.TempDir(), "deeper", "certs")
				if had != "" {
					require.NoError(t, SavePending(dir, []byte(had)))
				}
				f := NewFailing(steps)
				err := writer{dir: dir, fs: f}.savePending([]byte("new"))
				f.Lose(t, loss)
				got, readErr := Pending(dir)
				require.NoError(t, readErr)
				if err == nil {
					require.Equal(t, "new", string(got))
					require.Greater(t, steps, 3)
					break
				}
				require.ErrorIs(t, err, ErrPowerCut)
				require.Contains(t, []string{had, "new"}, string(got), "after %d steps", steps)
				require.NoError(t, SavePending(dir, []byte("next")))
			}
		}
	}
}
