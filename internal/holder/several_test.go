// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package holder

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/internal/certfile"
	"github.com/ikhnos/continuum/internal/testpki/testserver"
)

// Several holders renew in one directory at once: each gets a certificate, and a
// whole pair is in force.
func TestSeveralHoldersOfADirectory(t *testing.T) {
	server := testserver.New(t)
	set := settings(t, server, "c1")
	_, err := New(set).Attempt(t.Context())
	require.NoError(t, err)
	var holders sync.WaitGroup
	for range 8 {
		holders.Go(func() {
			h := New(set)
			assert.NoError(t, h.Load(t.Context()))
			_, err := h.Attempt(t.Context())
			assert.NoError(t, err)
		})
	}
	holders.Wait()
	g, err := certfile.Load(set.Directory)
	require.NoError(t, err)
	require.NoError(t, g.Check())
}
