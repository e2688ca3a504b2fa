// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"

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
	dir, address := testbed.Dir(t), testbed.Address(t)
	p := testbed.StartTool(t, dir, toolName, args(address, filepath.Join(dir, "data"))...)
	s := &store{name, "http://" + address, flush}
	testbed.Eventually(t, name, func(ctx context.Context) error { return testbed.Answers(ctx, s.url+ready) }, p)
	return s
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
func (s *store) query(t *testing.T, path string, values url.Values, enough func(body []byte) bool) {
	t.Helper()
	testbed.Eventually(t, "what was sent in "+s.name, func(ctx context.Context) error {
		if s.flush != "" {
			if err := testbed.Answers(ctx, s.url+s.flush); err != nil {
				return err
			}
		}
		code, body, err := testbed.Get(ctx, nil, s.url+path+"?"+values.Encode())
		if err == nil && (code != http.StatusOK || !enough(body)) {
			err = fmt.Errorf("it answers %d: %s", code, body)
		}
		return err
	})
}
