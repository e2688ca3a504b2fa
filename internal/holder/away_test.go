// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package holder

import (
	"context"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/controlclient"
	"github.com/ikhnos/continuum/internal/testpki/testserver"
)

// The control server is away for 19 days from the instant of a renewal: the leaf of
// 30 days is good all the time, tries are spread out, and one of the first after the
// server's return renews. Without CONTINUUM_SOAK it is away for three days, which is
// past renewBy as well.
func TestAwayForNineteenDays(t *testing.T) {
	days := 3
	if os.Getenv("CONTINUUM_SOAK") != "" {
		days = 19
	}
	synctest.Test(t, func(t *testing.T) {
		const day = 24 * time.Hour
		server := testserver.NewOffline(t)
		client, err := controlclient.New(&http.Client{Transport: server}, "https://ikhnos.example.com", time.Now)
		require.NoError(t, err)
		token := server.Token("c1")
		h := New(Settings{
			Directory: t.TempDir(), Server: client, Now: time.Now, Random: rand.New(rand.NewPCG(1, 2)).Float64,
			Token: func() (string, error) { return token, nil },
		})
		_, err = h.Attempt(t.Context())
		require.NoError(t, err)
		server.Refuse(func(string) *controlapi.Problem { return controlapi.NewProblem(controlapi.ReasonUnavailable, "") })
		time.Sleep(h.UntilDue())
		calls := len(server.Calls())

		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { h.Keep(ctx, func(Look) {}) })
		for range days {
			time.Sleep(day)
			require.True(t, h.Usable())
		}
		require.Equal(t, controlapi.CertificateOverdue, h.Status().State)
		require.InDelta(t, days*48, len(server.Calls())-calls, float64(days)*48/3, "full jitter up to an hour: two an hour")
		server.Refuse(nil)
		time.Sleep(2 * time.Hour)
		require.Equal(t, controlapi.CertificateUsable, h.Status().State)
		require.Len(t, server.Entries(), 2)
		stop()
		running.Wait()
	})
}
