// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package runtimestate

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/internal/controlapi"
)

func TestSnapshot(t *testing.T) {
	certs, policy := Snapshot("one")
	require.NotNil(t, certs)
	require.Empty(t, certs)
	require.Nil(t, policy)

	SetCertificates("one", "ikhnosrenew/b", []controlapi.HeartbeatCertificate{{Name: "b"}})
	SetCertificates("one", "ikhnosrenew/a", []controlapi.HeartbeatCertificate{{Name: "a"}})
	SetPolicy("one", &controlapi.Version{Epoch: 1, Number: 7})
	SetCertificates("two", "ikhnosrenew", []controlapi.HeartbeatCertificate{{Name: "other"}})

	certs, policy = Snapshot("one")
	require.Equal(t, []controlapi.HeartbeatCertificate{{Name: "a"}, {Name: "b"}}, certs)
	require.Equal(t, &controlapi.Version{Epoch: 1, Number: 7}, policy)

	Drop("one", "ikhnosrenew/a")
	Drop("one", "ikhnosrenew/b")
	SetPolicy("one", nil)
	Drop("two", "ikhnosrenew")
	Drop("never", "ikhnosrenew")
	require.Empty(t, collectors, "nothing is kept of collectors that stopped")
}

func TestConcurrentUse(t *testing.T) {
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 100 {
				SetCertificates("busy", "owner", make([]controlapi.HeartbeatCertificate, i%3))
				SetPolicy("busy", &controlapi.Version{Number: int64(i)})
				Snapshot("busy")
			}
		})
	}
	wg.Wait()
	Drop("busy", "owner")
	SetPolicy("busy", nil)
	require.Empty(t, collectors)
}
