// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ikhnosrenew

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"

	"github.com/ikhnos/continuum/components/extension/ikhnosrenew/internal/metadatatest"
	"github.com/ikhnos/continuum/internal/certfile"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/holder"
	"github.com/ikhnos/continuum/internal/runtimestate"
	"github.com/ikhnos/continuum/internal/testpki"
	"github.com/ikhnos/continuum/internal/testpki/testserver"
)

// trap-1, RN-1: leaves of 60 s for many lifetimes. Every leaf is replaced
// after a third of its life, and no moment is without a valid one.
func TestShortLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := testserver.NewOffline(t)
		server.SetLife(time.Minute)
		cfg := configFor(t, server, server.Token("c1"))
		r, host := offline(t, cfg, server), newStatusHost()
		require.NoError(t, r.Start(t.Context(), host))
		time.Sleep(30 * time.Second)
		require.Len(t, server.Entries(), 1, "between Start and Ready nothing is swapped, even when it is due")
		require.NoError(t, r.Ready())
		for range 300 {
			time.Sleep(6 * time.Second)
			g, err := certfile.Load(cfg.Certificates["export"].Directory)
			require.NoError(t, err)
			leaf, err := g.Leaf()
			require.NoError(t, err)
			require.True(t, time.Now().Before(leaf.NotAfter))
		}
		require.InDelta(t, 90, len(server.Entries()), 12)
		require.NoError(t, r.Shutdown(t.Context()))
		require.Empty(t, host.statuses())
	})
}

// The control server is away from before a renewal is due until past renewBy:
// nothing ends, tries are spread out, the status says so once, and the first good try
// renews. Here a leaf lives for 30 hours, with every time in proportion; internal/holder
// has the 19 days of one that lives for 30.
func TestServerAwayPastRenewBy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := testserver.NewOffline(t)
		server.SetLife(30 * time.Hour)
		cfg := configFor(t, server, server.Token("c1"))
		r, host := offline(t, cfg, server), newStatusHost()
		require.NoError(t, r.Start(t.Context(), host))
		require.NoError(t, r.Ready())
		server.Refuse(func(string) *controlapi.Problem { return controlapi.NewProblem(controlapi.ReasonUnavailable, "") })
		status := r.keepers[0].holder.Status()
		time.Sleep(time.Until(status.RenewAfter))
		require.Len(t, server.Calls(), 1, "the enrolment")
		time.Sleep(2*time.Hour + time.Minute) // the window is two hours long
		require.InDelta(t, 100, len(server.Calls()), 36, "full jitter up to a 720th of a life: about 48 an hour, and more at first")
		require.Equal(t, []componentstatus.Status{componentstatus.StatusRecoverableError}, host.statuses(), "overdue, once")
		certs, _ := runtimestate.Snapshot(instance)
		require.Equal(t, controlapi.CertificateOverdue, certs[0].State)
		server.Refuse(nil)
		time.Sleep(5 * time.Minute)
		require.Len(t, server.Entries(), 2)
		require.Equal(t, []componentstatus.Status{componentstatus.StatusRecoverableError, componentstatus.StatusOK}, host.statuses())
		require.NoError(t, r.Shutdown(t.Context()))
	})
}

// trap-2, case-11: the collector was off until its leaf ended. It starts with it,
// says so, goes on trying, and takes a new token when one comes.
func TestEndedLeaf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := testserver.NewOffline(t)
		cfg := configFor(t, server, server.Token("c1"))
		r := offline(t, cfg, server)
		require.NoError(t, r.Start(t.Context(), newStatusHost()))
		require.NoError(t, r.Shutdown(t.Context()))
		time.Sleep(45 * 24 * time.Hour)

		r, host := offline(t, cfg, server), newStatusHost()
		start := time.Now()
		require.NoError(t, r.Start(t.Context(), host))
		require.Zero(t, time.Since(start), "an ended pair counts as present")
		require.NoError(t, r.Ready())
		time.Sleep(5 * time.Hour)
		require.Equal(t, []componentstatus.Status{componentstatus.StatusRecoverableError, componentstatus.StatusRecoverableError},
			host.statuses(), "ended, and then why it stays so")
		require.ErrorContains(t, host.events[1].Err(), "token_spent")
		certs, _ := runtimestate.Snapshot(instance)
		require.Equal(t, controlapi.CertificateExpired, certs[0].State)
		require.Less(t, len(server.Calls()), 40)

		export := cfg.Certificates["export"]
		require.NoError(t, os.WriteFile(export.Enrollment.Get().TokenFile, []byte(server.Token("c1")), 0o600))
		time.Sleep(2 * time.Minute)
		require.Len(t, server.Entries(), 2)
		require.Equal(t, componentstatus.StatusOK, host.statuses()[len(host.statuses())-1])
		require.NoError(t, r.Shutdown(t.Context()))
	})
}

// Contract, section 4: the token of a `restore` or a `rekey` is spent as soon as it
// is there, although the pair is good. A useless one is tried once.
func TestNewTokenOverAGoodPair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := testserver.NewOffline(t)
		cfg := configFor(t, server, server.Token("c1"))
		export := cfg.Certificates["export"]
		token := export.Enrollment.Get().TokenFile
		r, host := offline(t, cfg, server), newStatusHost()
		require.NoError(t, r.Start(t.Context(), host))
		require.NoError(t, r.Ready())
		time.Sleep(time.Hour)
		require.Len(t, server.Calls(), 1, "the token that the pair came by is no reason")

		require.NoError(t, os.WriteFile(token, []byte(server.Token("c1")), 0o600))
		time.Sleep(2 * time.Minute)
		require.Len(t, server.Entries(), 2)
		require.Nil(t, server.Entries()[1].Parent)

		require.NoError(t, os.WriteFile(token, []byte(controlapi.NewSecret(controlapi.SecretEnrollment, server.CA.SPKIHash())), 0o600))
		time.Sleep(24 * time.Hour)
		require.Len(t, server.Calls(), 3)
		require.Empty(t, host.statuses())
		require.NoError(t, r.Shutdown(t.Context()))

		// A pair that others put there does not say: the token there is not spent.
		generation, err := certfile.Load(export.Directory)
		require.NoError(t, err)
		generation.Token = ""
		require.NoError(t, certfile.Publish(export.Directory, generation))
		require.NoError(t, os.WriteFile(token, []byte(server.Token("c1")), 0o600))
		r = offline(t, cfg, server)
		require.NoError(t, r.Start(t.Context(), newStatusHost()))
		require.NoError(t, r.Ready())
		time.Sleep(time.Hour)
		require.Len(t, server.Calls(), 3)
		require.NoError(t, r.Shutdown(t.Context()))
	})
}

// case-2: a ca.crt that changed is said, because exporters read it once.
func TestRestartRequired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := testserver.NewOffline(t)
		cfg := configFor(t, server, server.Token("c1"))
		r, host := offline(t, cfg, server), newStatusHost()
		require.NoError(t, r.Start(t.Context(), host))
		require.NoError(t, r.Ready())
		dir := cfg.Certificates["export"].Directory
		g, err := certfile.Load(dir)
		require.NoError(t, err)
		g.CA = append(g.CA, testpki.NewCA(t, "op-new").PEM...)
		require.NoError(t, certfile.Publish(dir, g))
		time.Sleep(2 * time.Minute)
		require.Equal(t, []componentstatus.Status{componentstatus.StatusRecoverableError}, host.statuses())
		require.ErrorContains(t, host.events[0].Err(), "restart the collector")
		require.NoError(t, r.Shutdown(t.Context()))
	})
}

// Shutdown cuts off a request that hangs, within its own bound.
func TestShutdownDuringARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := testserver.NewOffline(t)
		server.SetLife(time.Minute)
		var hang atomic.Bool
		r := offline(t, configFor(t, server, server.Token("c1")), roundTrip(func(req *http.Request) (*http.Response, error) {
			if hang.Load() {
				<-req.Context().Done()
				return nil, errors.New("cut off")
			}
			return server.RoundTrip(req)
		}))
		require.NoError(t, r.Start(t.Context(), newStatusHost()))
		hang.Store(true)
		require.NoError(t, r.Ready())
		time.Sleep(25 * time.Second)
		start := time.Now()
		require.NoError(t, r.Shutdown(t.Context()))
		require.Zero(t, time.Since(start))
	})
}

// Contract 8: names, units and attributes of the metrics.
func TestMetrics(t *testing.T) {
	server := testserver.New(t)
	tel := componenttest.NewTelemetry()
	defer func() { require.NoError(t, tel.Shutdown(t.Context())) }()
	cfg := configFor(t, server, server.Token("c1"))
	r, err := newRenewer(cfg, metadatatest.NewSettings(tel))
	require.NoError(t, err)
	require.NoError(t, r.Start(t.Context(), newStatusHost()))
	defer func() { require.NoError(t, r.Shutdown(t.Context())) }()
	server.Refuse(func(string) *controlapi.Problem { return controlapi.NewProblem(controlapi.ReasonSenderHeld, "") })
	result, err := r.keepers[0].holder.Attempt(t.Context())
	require.Error(t, err)
	r.keepers[0].look(holder.Look{Attempted: true, Result: result, Err: err})

	label := attribute.NewSet(attribute.String("certificate", "export"))
	attempt := func(operation, outcome string) metricdata.DataPoint[int64] {
		return metricdata.DataPoint[int64]{Value: 1, Attributes: attribute.NewSet(
			attribute.String("certificate", "export"), attribute.String("operation", operation), attribute.String("outcome", outcome))}
	}
	metadatatest.AssertEqualExtensionIkhnosrenewAttempts(t, tel,
		[]metricdata.DataPoint[int64]{attempt("enroll", "issued"), attempt("renew", "refused")}, metricdatatest.IgnoreTimestamp())
	status := r.keepers[0].holder.Status()
	metadatatest.AssertEqualExtensionIkhnosrenewCertificateExpiry(t, tel,
		[]metricdata.DataPoint[int64]{{Value: status.NotAfter.Unix(), Attributes: label}}, metricdatatest.IgnoreTimestamp())
	metadatatest.AssertEqualExtensionIkhnosrenewNextRenewal(t, tel,
		[]metricdata.DataPoint[int64]{{Value: status.RenewAfter.Unix(), Attributes: label}}, metricdatatest.IgnoreTimestamp())
	metadatatest.AssertEqualExtensionIkhnosrenewRestartRequired(t, tel,
		[]metricdata.DataPoint[int64]{{Value: 0, Attributes: label}}, metricdatatest.IgnoreTimestamp())
	metadatatest.AssertEqualExtensionIkhnosrenewClockOffset(t, tel,
		[]metricdata.DataPoint[int64]{{Value: 0, Attributes: label}}, metricdatatest.IgnoreTimestamp())
	require.FileExists(t, filepath.Join(cfg.Certificates["export"].Directory, certfile.FilePending), "the key of the refused request is kept")
}
