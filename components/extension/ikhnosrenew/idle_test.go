// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ikhnosrenew

import (
	"runtime"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/internal/certfile"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/testpki"
	"github.com/ikhnos/continuum/internal/testpki/testserver"
)

// Bars of an extension that has nothing to do.
const (
	idleBytes = 5e6
	idleCore  = 0.002 // of a core
)

// idle starts n extensions, each with a certificate that is good for ten days.
func idle(t testing.TB, n int) (stop func()) {
	ca := testpki.NewCA(t, "op-abc")
	leaf := ca.Sender(t, controlapi.KindCluster, "c1")
	running := make([]*renewer, n)
	for i := range running {
		cfg := configFor(t, &testserver.Server{}, controlapi.NewSecret(controlapi.SecretEnrollment, ca.SPKIHash()))
		cfg.Server.Get().Endpoint = "https://127.0.0.1:1"
		require.NoError(t, certfile.Publish(cfg.Certificates["export"].Directory, certfile.New(leaf.CertPEM, leaf.KeyPEM, ca.PEM)))
		running[i] = newForTest(t, cfg)
		require.NoError(t, running[i].Start(t.Context(), newStatusHost()))
		require.NoError(t, running[i].Ready())
	}
	return func() {
		for _, r := range running {
			require.NoError(t, r.Shutdown(t.Context()))
		}
	}
}

// idleCPU is the part of a core that one extension takes over a simulated time.
func idleCPU(t *testing.T, d time.Duration) (part float64) {
	const n = 10
	synctest.Test(t, func(t *testing.T) {
		stop := idle(t, n)
		before := processorTime(t)
		time.Sleep(d)
		part = (processorTime(t) - before).Seconds() / d.Seconds() / n
		stop()
	})
	return part
}

func processorTime(t testing.TB) time.Duration {
	var usage syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// idleMemory is what one extension holds of heap and stacks.
func idleMemory(t testing.TB) float64 {
	const n = 20
	idle(t, 1)() // what is made once for a process
	before := held()
	stop := idle(t, n)
	bytes := (held() - before) / n
	stop()
	return bytes
}

func held() float64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc + stats.StackInuse)
}

// The numbers of issue 4: an idle extension costs at most 5 MB and 0.2 % of a core.
func TestIdleCost(t *testing.T) {
	bytes, part := idleMemory(t), idleCPU(t, time.Hour)
	t.Logf("an idle extension holds %.0f kB and takes %.5f %% of a core", bytes/1e3, part*100)
	require.Less(t, bytes, idleBytes)
	require.Less(t, part, idleCore)
}
