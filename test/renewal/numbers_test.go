// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package renewal

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/extension/extensiontest"
	"go.uber.org/goleak"

	"github.com/ikhnos/continuum/components/extension/ikhnosrenew"
	"github.com/ikhnos/continuum/internal/controlclient"
	"github.com/ikhnos/continuum/internal/holder"
	"github.com/ikhnos/continuum/test/testbed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	operator = "op-abc"
	// renewals of one sender: a server refuses more than twenty leaves of one holder
	// that live at the same time.
	renewals = 16
)

// case-7 and the numbers of issue 4: over many renewals with the client that the
// extension has, neither goroutines nor descriptors grow, here or in the server.
func TestManyRenewals(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server")
	}
	server := testbed.StartServer(t)
	server.Regional(operator, "")
	cfg := clientOf(server)
	client, err := cfg.NewClient(t.Context(), componenttest.NewNopHost(), componenttest.NewNopTelemetrySettings())
	require.NoError(t, err)
	defer client.CloseIdleConnections()

	round := func(cluster string) {
		server.Sender(operator, cluster)
		token := server.Token(operator, cluster)
		h := holder.New(holder.Settings{
			Directory: filepath.Join(t.TempDir(), "export"), Server: client, Now: time.Now, Random: rand.Float64,
			Token: func() (string, error) { return token, nil },
		})
		require.NoError(t, h.Load(t.Context()))
		for range 1 + renewals {
			_, err := h.Attempt(t.Context())
			require.NoError(t, err)
		}
	}
	round("first")
	goroutines, open, theirs := runtime.NumGoroutine(), descriptors(t, os.Getpid()), descriptors(t, server.PID())
	rounds := 3
	if testbed.Soak() {
		rounds = 1 + 1000/renewals
	}
	for i := range rounds {
		round(fmt.Sprintf("c%d", i))
	}
	t.Logf("%d renewals", rounds*renewals)
	testbed.Eventually(t, "goroutines and descriptors to be as before", func(context.Context) error {
		g, o, s := runtime.NumGoroutine(), descriptors(t, os.Getpid()), descriptors(t, server.PID())
		if g > goroutines+2 || o > open+2 || s > theirs+4 {
			return fmt.Errorf("goroutines %d, were %d; descriptors %d, were %d; of the server %d, were %d", g, goroutines, o, open, s, theirs)
		}
		return nil
	})
}

func descriptors(t *testing.T, pid int) int {
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	require.NoError(t, err)
	return len(open)
}

func clientOf(server *testbed.Server) controlclient.Config {
	cfg := controlclient.NewDefaultConfig()
	cfg.Endpoint, cfg.CAPins = server.URL, []string{server.Pin}
	return cfg
}

// BenchmarkFirstLeaf measures a start of the extension that has a token and nothing
// else, until its certificate is in place. Bar: 2 s.
func BenchmarkFirstLeaf(b *testing.B) {
	server := testbed.StartServer(b)
	server.Regional(operator, "")
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		cluster := fmt.Sprintf("c%d", i)
		server.Sender(operator, cluster)
		dir := testbed.Dir(b)
		server.TokenFile(filepath.Join(dir, "token"), operator, cluster)
		e := newExtension(b, server, dir)
		b.StartTimer()
		require.NoError(b, e.Start(b.Context(), componenttest.NewNopHost()))
		b.StopTimer()
		require.FileExists(b, filepath.Join(dir, "export", "tls.crt"))
		require.NoError(b, e.Shutdown(b.Context()))
		b.StartTimer()
	}
	require.Less(b, b.Elapsed()/time.Duration(b.N), 2*time.Second)
}

func newExtension(t testing.TB, server *testbed.Server, dir string) extension.Extension {
	factory := ikhnosrenew.NewFactory()
	cfg := factory.CreateDefaultConfig().(*ikhnosrenew.Config)
	cfg.Server = configoptional.Some(clientOf(server))
	cfg.Certificates = map[string]ikhnosrenew.CertificateConfig{"export": {
		Directory:  filepath.Join(dir, "export"),
		Enrollment: configoptional.Some(ikhnosrenew.EnrollmentConfig{TokenFile: filepath.Join(dir, "token")}),
	}}
	e, err := factory.Create(t.Context(), extensiontest.NewNopSettings(factory.Type()), cfg)
	require.NoError(t, err)
	return e
}
