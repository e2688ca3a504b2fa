// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.uber.org/goleak"

	"github.com/ikhnos/continuum/control/cli/demo"
	"github.com/ikhnos/continuum/internal/process"
	"github.com/ikhnos/continuum/test/testbed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestAlerts: each alert fires for its fault, and none for a fleet of fresh leaves.
func TestAlerts(t *testing.T) {
	promtool := testbed.Tool(t, "promtool")
	for _, args := range [][]string{{"check", "rules", "alerts.yaml"}, {"test", "rules", "alerts.test.yaml"}} {
		out, err := exec.CommandContext(testbed.Context(t, 10*time.Minute), promtool, args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
}

// scrapes is Prometheus' configuration: the control server, and each collector
// under the name that its own telemetry gives it.
const scrapes = `global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs:
  - {job_name: ikhnos, static_configs: [{targets: [%q]}]}
  - {job_name: continuum-central-operator, static_configs: [{targets: ["127.0.0.1:%d"]}]}
  - {job_name: continuum-regional-operator, static_configs: [{targets: ["127.0.0.1:%d"]}]}
`

// TestQueriesReturnData runs every query of every dashboard, and every rule, in a
// real Prometheus that scrapes a real fleet.
func TestQueriesReturnData(t *testing.T) {
	if testing.Short() {
		t.Skip("starts seven processes")
	}
	ctx := testbed.Context(t, 10*time.Minute)
	fleet, err := demo.Start(ctx, demo.Config{
		Ikhnos: testbed.Program(t, "ikhnos"), Collector: testbed.Program(t, "continuum-collector"),
		Dir: testbed.Dir(t), PortBase: testbed.Port(t), LeafLifetime: 24 * time.Hour, Now: time.Now,
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		fleet.Stop()
		http.DefaultClient.CloseIdleConnections()
		fleet.API.CloseIdleConnections()
	})
	base := startPrometheus(t, fmt.Sprintf(scrapes, rulesPath(t), fleet.MetricsAddress,
		fleet.Collector(demo.CentralID).MetricsPort, fleet.Collector(demo.RegionalID).MetricsPort))
	forge := func(_ plog.ResourceLogs, r plog.LogRecord) { r.Attributes().PutStr("continuum.cluster.id", "c1") }
	require.NoError(t, fleet.SendLog(ctx, demo.ForgerID, "forged", forge))

	for _, path := range dashboards(t) {
		for _, p := range readBoard(t, path).Panels {
			for _, target := range p.Targets {
				query := expand(target.Expr)
				testbed.Eventually(t, filepath.Base(path)+": "+p.Title+": "+query, func(ctx context.Context) error {
					n, err := samples(ctx, base, query)
					if err == nil && n == 0 {
						err = errors.New("no data")
					}
					return err
				})
			}
		}
	}
	firing, err := samples(ctx, base, `ALERTS{alertstate="firing",severity="critical"}`)
	require.NoError(t, err)
	require.Zero(t, firing, "nothing is wrong with this fleet")
}

func rulesPath(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("alerts.yaml")
	require.NoError(t, err)
	return path
}

// startPrometheus runs it on a free port and returns its address.
func startPrometheus(t *testing.T, config string) string {
	t.Helper()
	dir := testbed.Dir(t)
	path := filepath.Join(dir, "prometheus.yaml")
	require.NoError(t, os.WriteFile(path, []byte(config), 0o600))
	address := testbed.Address(t)
	p, err := process.Start(dir, "prometheus", nil, testbed.Tool(t, "prometheus"),
		"--config.file="+path, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	require.NoError(t, err)
	t.Cleanup(p.Stop)
	base := "http://" + address
	testbed.Eventually(t, "Prometheus", func(ctx context.Context) error { return testbed.Answers(ctx, base+"/-/ready") }, p)
	return base
}

// samples counts what an instant query returns.
func samples(ctx context.Context, base, query string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/api/v1/query?query="+url.QueryEscape(query), http.NoBody)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	var answer struct {
		Error string
		Data  struct{ Result []json.RawMessage }
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return 0, err
	}
	if answer.Error != "" {
		return 0, errors.New(answer.Error)
	}
	return len(answer.Data.Result), nil
}
