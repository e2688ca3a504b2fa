// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/test/testbed"
)

// store is one running store on loopback.
type store struct {
	name, url string
	flush     string // path that makes what was written visible; may be empty
}

// startStore starts a store; args get its address and its folder.
func startStore(t *testing.T, name, toolName, ready, flush string, args func(address, dir string) []string) *store {
	t.Helper()
	dir := spacedDir(t)
	address := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	p := &process{
		log: filepath.Join(dir, "log"), program: testbed.Tool(t, toolName), args: args(address, filepath.Join(dir, "data")),
		ready: "http://" + address + ready,
	}
	t.Cleanup(func() { p.kill(t) })
	p.start(t)
	return &store{name, "http://" + address, flush}
}

func startVictoriaMetrics(t *testing.T, name string) *store {
	t.Helper()
	return startStore(t, name, "victoria-metrics", "/health", "/internal/force_flush", func(address, dir string) []string {
		return []string{"-storageDataPath=" + dir, "-httpListenAddr=" + address, "-retentionPeriod=2d"}
	})
}

func startVictoriaLogs(t *testing.T) *store {
	t.Helper()
	return startStore(t, "VictoriaLogs", "victoria-logs", "/health", "/internal/force_flush", func(address, dir string) []string {
		return []string{"-storageDataPath=" + dir, "-httpListenAddr=" + address, "-retentionPeriod=2d"}
	})
}

// prometheusConfig promotes what distributions/central/README.md asks for, and the
// labels.
const prometheusConfig = `
otlp:
  promote_resource_attributes:
    [continuum.org.id, continuum.cluster.id, continuum.operator.id, continuum.operator.name, service.instance.id, region, tier]
storage:
  tsdb: {out_of_order_time_window: 30m}
`

func startPrometheus(t *testing.T, name string) *store {
	t.Helper()
	config := filepath.Join(t.TempDir(), "prometheus.yml")
	require.NoError(t, os.WriteFile(config, []byte(prometheusConfig), 0o600))
	return startStore(t, name, "prometheus", "/-/ready", "", func(address, dir string) []string {
		return []string{
			"--config.file=" + config, "--storage.tsdb.path=" + dir, "--web.listen-address=" + address,
			"--web.enable-otlp-receiver", "--web.enable-remote-write-receiver", "--enable-feature=exemplar-storage",
		}
	})
}

// query asks until enough accepts what the store answers, which is told by nothing.
func (s *store) query(ctx context.Context, t *testing.T, path string, values url.Values, enough func(body []byte) bool) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if s.flush != "" {
			_, _, err := get(ctx, s.url+s.flush)
			require.NoError(t, err, s.name)
		}
		code, body, err := get(ctx, s.url+path+"?"+values.Encode())
		require.NoError(t, err, s.name)
		require.Equal(t, 200, code, "%s: %s", s.name, body)
		if enough(body) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s does not show what was sent: %v\n%s", s.name, context.Cause(ctx), body)
		}
	}
}
