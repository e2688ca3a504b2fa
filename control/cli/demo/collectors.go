// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"embed"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"github.com/ikhnos/continuum/distributions"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/identity"
	"github.com/ikhnos/continuum/internal/process"
)

// overlays change what a machine shared by five collectors needs; all else is
// the configuration that ships.
//
//go:embed overlays
var overlays embed.FS

func (f *Fleet) startCentral(ctx context.Context) error {
	secrets, err := f.secretDir(CentralID)
	if err != nil {
		return err
	}
	if err := f.token(ctx, filepath.Join(secrets, "receiver-token"), CentralID, controlapi.RoleReceiver, ""); err != nil {
		return err
	}
	if err := f.heartbeat(ctx, filepath.Join(secrets, "heartbeat"), CentralID); err != nil {
		return err
	}
	return f.startCollector(ctx, CentralID, "central", distributions.Central, f.ports.take(),
		"CONTINUUM_OPERATOR_ID="+CentralID,
		fmt.Sprintf("DEMO_SINK_PORT=%d", f.sinkPort))
}

func (f *Fleet) startRegional(ctx context.Context) error {
	secrets, err := f.secretDir(RegionalID)
	if err != nil {
		return err
	}
	if err := f.token(ctx, filepath.Join(secrets, "receiver-token"), RegionalID, controlapi.RoleReceiver, ""); err != nil {
		return err
	}
	if err := f.token(ctx, filepath.Join(secrets, "export-token"), CentralID, controlapi.RoleSender, RegionalID); err != nil {
		return err
	}
	if err := f.heartbeat(ctx, filepath.Join(secrets, "heartbeat"), RegionalID); err != nil {
		return err
	}
	return f.startCollector(ctx, RegionalID, "regional", distributions.Regional, f.ports.take(),
		"CONTINUUM_OPERATOR_ID="+RegionalID,
		"CONTINUUM_OPERATOR_NAME=EU West",
		`CONTINUUM_OPERATOR_LABELS={region: eu-west}`,
		fmt.Sprintf("CONTINUUM_DESTINATION=127.0.0.1:%d", f.collectors[CentralID].GRPCPort),
		"CONTINUUM_DESTINATION_NAME="+identity.StableName(CentralID))
}

// startCluster starts a cluster's collector, which reads this host's metrics and
// logs and takes OTLP from applications on otlpPort.
func (f *Fleet) startCluster(ctx context.Context, id string, otlpPort int) error {
	secrets, err := f.secretDir(id)
	if err != nil {
		return err
	}
	if err := f.token(ctx, filepath.Join(secrets, "export-token"), RegionalID, controlapi.RoleSender, id); err != nil {
		return err
	}
	return f.startCollector(ctx, id, "cluster", distributions.Cluster, otlpPort,
		fmt.Sprintf("CONTINUUM_GRPC_PORT=%d", otlpPort),
		fmt.Sprintf("CONTINUUM_DESTINATION=127.0.0.1:%d", f.collectors[RegionalID].GRPCPort),
		"CONTINUUM_DESTINATION_NAME="+identity.StableName(RegionalID),
		"CONTINUUM_LOG_FILES="+filepath.Join(f.cfg.Dir, "server.log"))
}

// startCollector writes the shipped configuration and its overlay, starts the
// collector on them and waits until its pipelines run.
func (f *Fleet) startCollector(ctx context.Context, id, role string, config []byte, grpcPort int, env ...string) error {
	dir := filepath.Join(f.cfg.Dir, id)
	overlay, err := overlays.ReadFile("overlays/" + role + ".yaml")
	if err != nil {
		return fmt.Errorf("reading the overlay of %s: %w", role, err)
	}
	paths := []string{filepath.Join(dir, "config.yaml"), filepath.Join(dir, "overlay.yaml")}
	for i, text := range [][]byte{config, overlay} {
		if err := os.WriteFile(paths[i], text, 0o600); err != nil {
			return fmt.Errorf("writing the configuration of %s: %w", id, err)
		}
	}
	c := &Collector{
		name: id, StateDir: filepath.Join(dir, "state"),
		GRPCPort: grpcPort, HTTPPort: f.ports.take(), MetricsPort: f.ports.take(), healthPort: f.ports.take(),
		args: []string{"--config", paths[0], "--config", paths[1]},
	}
	c.env = append(env,
		"CONTINUUM_SERVER="+f.URL,
		"CONTINUUM_CA_PINS=["+f.Pin+"]",
		"CONTINUUM_STATE="+c.StateDir,
		"CONTINUUM_SECRETS="+filepath.Join(dir, "secrets"),
		fmt.Sprintf("CONTINUUM_HTTP_PORT=%d", c.HTTPPort),
		fmt.Sprintf("CONTINUUM_METRICS_PORT=%d", c.MetricsPort),
		fmt.Sprintf("CONTINUUM_SELF_PORT=%d", f.ports.take()),
		fmt.Sprintf("DEMO_GRPC_PORT=%d", c.GRPCPort),
		fmt.Sprintf("DEMO_HTTP_PORT=%d", c.HTTPPort),
		fmt.Sprintf("DEMO_HEALTH_PORT=%d", c.healthPort),
	)
	if err := os.MkdirAll(c.StateDir, 0o700); err != nil {
		return fmt.Errorf("making the state folder of %s: %w", id, err)
	}
	f.collectors[id] = c
	return f.Run(ctx, c)
}

// Run starts the process of a collector that is stopped, on what it has on disk,
// and waits until its pipelines run.
func (f *Fleet) Run(ctx context.Context, c *Collector) error {
	child, err := process.Start(f.cfg.Dir, c.name, c.env, f.cfg.Collector, c.args...)
	if err != nil {
		return err
	}
	c.Process = child
	if !slices.Contains(f.order, c.name) {
		f.order = append(f.order, c.name)
	}
	return process.Poll(ctx, c.name, f.processes(), func(ctx context.Context) error {
		return answers(ctx, fmt.Sprintf("http://127.0.0.1:%d/", c.healthPort))
	})
}

// answers is nil when a GET of the URL is answered with 200.
func answers(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, resp.Status)
	}
	return nil
}
