// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package load

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ikhnos/continuum/internal/controlapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestRun measures a little of everything with the real server, so that a change
// of the API cannot break the benchmark unseen. It asserts no time.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three servers")
	}
	dir := os.Getenv("CONTINUUM_BIN")
	if dir == "" {
		dir = filepath.Join("..", "..", "bin")
	}
	program, err := filepath.Abs(filepath.Join(dir, "ikhnos"))
	require.NoError(t, err)
	require.FileExists(t, program, "run `make build` first")

	var out bytes.Buffer
	err = Run(t.Context(), Options{
		Ikhnos: program, Dir: t.TempDir(), Out: &out, Parts: Parts,
		Workers: 2, Pairs: 2, Kept: 2, Fresh: 1, Late: time.Millisecond, Slow: 1, Peer: 1, Operators: 5, Cuts: 2, Beating: 3, BeatFor: time.Millisecond,
	})
	require.NoError(t, err, out.String())
	for _, part := range []string{"Durable renewals", "a new connection for each", "living leaves", "one change for all operators", "2 of 2 confirmed", "Heartbeats", "resident memory"} {
		assert.Contains(t, out.String(), part)
	}
}

func TestQuantiles(t *testing.T) {
	var r result
	assert.Zero(t, r.quantile(0.5))
	for i := range 100 {
		r.times = append(r.times, time.Duration(i+1))
	}
	assert.Equal(t, time.Duration(51), r.quantile(0.5))
	assert.Equal(t, time.Duration(100), r.quantile(0.99))
	assert.Equal(t, time.Duration(100), r.quantile(1))
	assert.InDelta(t, 2, median([]float64{3, 1, 2}), 0)
	assert.InDelta(t, 2.5, median([]float64{4, 1, 2, 3}), 0)
}

func TestParallelStopsAtTheFirstError(t *testing.T) {
	broken := errors.New("broken")
	done := make([]bool, 10)
	err := parallel(t.Context(), 1, len(done), func(_ context.Context, _, i int) error {
		if done[i] = i < 3; !done[i] {
			return broken
		}
		return nil
	})
	require.ErrorIs(t, err, broken)
	assert.Len(t, slices.DeleteFunc(done, func(ok bool) bool { return !ok }), 3)
}

func TestVersionOf(t *testing.T) {
	v, err := versionOf(`"2.17"`)
	require.NoError(t, err)
	assert.Equal(t, controlapi.Version{Epoch: 2, Number: 17}, v)
	_, err = versionOf(`"17"`)
	require.Error(t, err)
}
