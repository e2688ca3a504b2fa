// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ikhnosrenew

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/extension/extensiontest"

	"github.com/ikhnos/continuum/components/extension/ikhnosrenew/internal/metadata"
	"github.com/ikhnos/continuum/internal/certfile"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/controlclient"
	"github.com/ikhnos/continuum/internal/holder"
	"github.com/ikhnos/continuum/internal/runtimestate"
	"github.com/ikhnos/continuum/internal/testpki"
	"github.com/ikhnos/continuum/internal/testpki/testserver"
)

// statusHost remembers what an extension reports.
type statusHost struct {
	component.Host
	mu     sync.Mutex
	events []*componentstatus.Event
}

func newStatusHost() *statusHost { return &statusHost{Host: componenttest.NewNopHost()} }

func (h *statusHost) Report(e *componentstatus.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

func (h *statusHost) statuses() []componentstatus.Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []componentstatus.Status
	for _, e := range h.events {
		out = append(out, e.Status())
	}
	return out
}

const instance = "instance-1"

func newSettings() extension.Settings {
	set := extensiontest.NewNopSettings(metadata.Type)
	set.Resource.Attributes().PutStr("service.instance.id", instance)
	return set
}

// configFor is a configuration with one certificate in a new directory.
func configFor(t testing.TB, server *testserver.Server, token string) *Config {
	cfg := createDefaultConfig().(*Config)
	client := controlclient.NewDefaultConfig()
	if server.Server != nil {
		client.Endpoint, client.CAPins = server.URL, []string{server.Pin}
	}
	cfg.Server = configoptional.Some(client)
	file := filepath.Join(t.TempDir(), "token")
	if token != "" {
		require.NoError(t, os.WriteFile(file, []byte(token+"\n"), 0o600))
	}
	cfg.Certificates = map[string]CertificateConfig{"export": {
		Directory:  filepath.Join(t.TempDir(), "export"),
		Enrollment: configoptional.Some(EnrollmentConfig{TokenFile: file}),
	}}
	return cfg
}

func newForTest(t testing.TB, cfg *Config) *renewer {
	r, err := newRenewer(cfg, newSettings())
	require.NoError(t, err)
	return r
}

// offline makes an extension call the server in place, for a simulated clock.
func offline(t testing.TB, cfg *Config, transport http.RoundTripper) *renewer {
	r := newForTest(t, cfg)
	r.newServer = func(context.Context, component.Host) (server, error) {
		return controlclient.New(&http.Client{Transport: transport}, "https://ikhnos.example.com", time.Now)
	}
	return r
}

// Start enrols what is missing, for all certificates together, over real TLS.
func TestStartEnrols(t *testing.T) {
	server := testserver.New(t)
	cfg := configFor(t, server, server.Token("c1"))
	second := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(second, []byte(server.Token("")), 0o600))
	cfg.Certificates["receiver"] = CertificateConfig{
		Directory:  filepath.Join(t.TempDir(), "receiver"),
		Enrollment: configoptional.Some(EnrollmentConfig{TokenFile: second}),
	}
	cfg.StartAfter = []component.ID{component.MustNewID("health_check")}
	r := newForTest(t, cfg)
	require.Equal(t, cfg.StartAfter, r.Dependencies()) // case-43
	host := newStatusHost()
	require.NoError(t, r.Start(t.Context(), host))
	require.Len(t, server.Entries(), 2)
	certs, _ := runtimestate.Snapshot(instance)
	require.Len(t, certs, 2)
	require.Equal(t, "export", certs[0].Name)
	require.Equal(t, controlapi.CertificateUsable, certs[0].State)
	require.NoError(t, r.Ready())
	require.NoError(t, r.NotReady())
	require.NoError(t, r.Shutdown(t.Context()))
	require.Empty(t, host.statuses(), "nothing changed, nothing is reported")
	certs, _ = runtimestate.Snapshot(instance)
	require.Empty(t, certs)

	// The second start has everything and asks nobody.
	server.Close()
	again := newForTest(t, cfg)
	require.NoError(t, again.Start(t.Context(), host))
	require.NoError(t, again.Shutdown(t.Context()))
	require.NoError(t, again.Shutdown(t.Context()), "twice")
	require.NoError(t, newForTest(t, cfg).Shutdown(t.Context()), "without Start")
}

// case-7: neither goroutines nor descriptors grow with reloads (goleak and this).
func TestReloads(t *testing.T) {
	server := testserver.New(t)
	cfg := configFor(t, server, server.Token("c1"))
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(entries)
	}
	cycle := func() {
		r := newForTest(t, cfg)
		require.NoError(t, r.Start(t.Context(), newStatusHost()))
		require.NoError(t, r.Ready())
		_, err := r.keepers[0].holder.Attempt(t.Context())
		require.Error(t, err) // and a connection is kept
		require.NoError(t, r.Shutdown(t.Context()))
	}
	first := newForTest(t, cfg)
	require.NoError(t, first.Start(t.Context(), newStatusHost())) // enrols
	require.NoError(t, first.Shutdown(t.Context()))
	server.Refuse(func(string) *controlapi.Problem { return controlapi.NewProblem(controlapi.ReasonUnavailable, "") })
	cycle()
	server.Client().CloseIdleConnections()
	before := count()
	for range 100 {
		cycle()
	}
	require.LessOrEqual(t, count(), before+2)
}

// The token file is read at every try, tries are at most 5 s apart, and a start
// that fails names the certificate and the last answer.
func TestStartWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := testserver.NewOffline(t)
		cfg := configFor(t, server, "")
		r := offline(t, cfg, server)
		start := time.Now()
		err := r.Start(t.Context(), newStatusHost())
		require.ErrorContains(t, err, `certificate "export"`)
		require.ErrorContains(t, err, "no enrolment token")
		require.Equal(t, cfg.StartupTimeout, time.Since(start))
		require.NoError(t, r.Shutdown(t.Context()))

		r = offline(t, cfg, server)
		time.AfterFunc(20*time.Second, func() {
			export := cfg.Certificates["export"]
			_ = os.WriteFile(export.Enrollment.Get().TokenFile, []byte(server.Token("c1")), 0o600)
		})
		start = time.Now()
		require.NoError(t, r.Start(t.Context(), newStatusHost()))
		require.InDelta(t, 22.5, time.Since(start).Seconds(), 2.5)
		require.NoError(t, r.Shutdown(t.Context()))
	})
}

func TestStartTellsTheLastAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := testserver.NewOffline(t)
		server.Refuse(func(string) *controlapi.Problem {
			return controlapi.NewProblem(controlapi.ReasonClusterNotApproved, "")
		})
		r := offline(t, configFor(t, server, server.Token("c1")), server)
		require.ErrorContains(t, r.Start(t.Context(), newStatusHost()), "cluster_not_approved")
		require.GreaterOrEqual(t, len(server.Calls()), 12)
		require.NoError(t, r.Shutdown(t.Context()))
	})
	// A server that hangs does not stretch the bound.
	synctest.Test(t, func(t *testing.T) {
		r := offline(t, configFor(t, &testserver.Server{}, controlapi.NewSecret(controlapi.SecretEnrollment, make([]byte, 16))), roundTrip(func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, req.Context().Err()
		}))
		start := time.Now()
		require.ErrorContains(t, r.Start(t.Context(), newStatusHost()), "calling the control server")
		require.Equal(t, time.Minute, time.Since(start))
		require.NoError(t, r.Shutdown(t.Context()))
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestStartWithASecret(t *testing.T) {
	server := testserver.New(t)
	cfg := configFor(t, server, server.Token("c1"))
	export := cfg.Certificates["export"]
	export.KubernetesSecret = configoptional.Some(SecretConfig{"continuum-system", "tls"})
	cfg.Certificates["export"] = export
	r := newForTest(t, cfg)
	require.Error(t, r.Start(t.Context(), newStatusHost()), "outside a cluster")
	require.NoError(t, r.Shutdown(t.Context()))

	r = newForTest(t, cfg)
	r.newStore = func(namespace, name string) (holder.Store, error) {
		require.Equal(t, "continuum-system/tls", namespace+"/"+name)
		return brokenStore{}, nil
	}
	leaf := server.CA.Sender(t, controlapi.KindCluster, "c1")
	require.NoError(t, certfile.Publish(export.Directory, certfile.New(leaf.CertPEM, leaf.KeyPEM, server.CA.PEM)))
	require.NoError(t, r.Start(t.Context(), newStatusHost()), "a pair on disk is enough")
	require.NoError(t, r.Shutdown(t.Context()))
}

var errAway = errors.New("the API server is away")

type brokenStore struct{ holder.Store }

func (brokenStore) Load(context.Context) (*certfile.Generation, error) { return nil, errAway }

func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := testpki.NewCA(t, "op-abc")
		dir := t.TempDir()
		cfg := createDefaultConfig().(*Config)
		cfg.Certificates = map[string]CertificateConfig{"export": {Directory: dir, Mode: Follow}}
		r := newForTest(t, cfg)
		require.ErrorContains(t, r.Start(t.Context(), newStatusHost()), "nobody has put")
		require.NoError(t, r.Shutdown(t.Context()))

		time.AfterFunc(10*time.Second, func() { ca.Sender(t, controlapi.KindCluster, "c1").WriteDir(t, dir, ca) })
		r = newForTest(t, cfg)
		require.NoError(t, r.Start(t.Context(), newStatusHost()))
		require.NoError(t, r.Ready())
		next := ca.Sender(t, controlapi.KindCluster, "c1")
		next.WriteDir(t, dir, ca)
		time.Sleep(2 * time.Minute)
		require.Equal(t, next.Cert.NotAfter.Unix(), r.keepers[0].holder.Status().NotAfter.Unix())
		require.NoError(t, r.Shutdown(t.Context()))
	})
}
