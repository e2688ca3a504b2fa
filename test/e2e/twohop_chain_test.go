// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/distributions"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/identity"
	"github.com/ikhnos/continuum/internal/testpki"
)

// Ids of a chain, and what its operators say of them.
const (
	chainCentral  = "op-central"
	chainRegional = "op-eu"
	chainOrg      = "org1"
)

var chainClusters = []string{"c1", "c2"}

// chainIdentity is what must stand on every resource of a cluster behind the
// chain, under reserved keys and labels.
func chainIdentity(cluster string) map[string]string {
	return map[string]string{
		identity.KeyOrgID:        chainOrg,
		identity.KeyClusterID:    cluster,
		identity.KeyOperatorID:   chainRegional,
		identity.KeyOperatorName: "EU West",
		"region":                 "eu-west",
		"tier":                   "of " + cluster,
	}
}

// chain is a regional and a central operator as processes on loopback, with the
// configuration that ships. Certificates come from testpki and the senders stand in
// the configuration: what happens to data on the way needs no control server.
type chain struct {
	dir        string
	env        []string               // of every collector
	ca         map[string]*testpki.CA // by operator
	collectors map[string]*process
	grpcPort   map[string]int
}

// What is laid over the shipped configuration: no renewal, no control server, and
// from a cluster's collector nothing of this machine.
const (
	operatorOverlay = `
extensions:
  certnameauth: {policy: {enabled: false}, senders: %s}
service:
  extensions: [health_check, file_storage, certnameauth]
`
	clusterOverlay = `
service:
  extensions: [health_check, file_storage]
  pipelines: {metrics: {receivers: [otlp]}, logs: {receivers: [otlp]}}
`
)

func newChain(t *testing.T, env ...string) *chain {
	t.Helper()
	c := &chain{
		dir: spacedDir(t), env: env, collectors: map[string]*process{}, grpcPort: map[string]int{},
		ca: map[string]*testpki.CA{chainCentral: testpki.NewCA(t, chainCentral), chainRegional: testpki.NewCA(t, chainRegional)},
	}
	for operator, ca := range c.ca {
		c.hold(t, operator, "receiver", ca.Receiver(t), ca)
	}
	toCentral := c.ca[chainCentral]
	c.hold(t, chainRegional, "export", toCentral.Sender(t, controlapi.KindOperator, chainRegional), toCentral)
	return c
}

// hold puts a certificate where a collector's configuration looks for it.
func (c *chain) hold(t *testing.T, id, label string, leaf *testpki.Leaf, ca *testpki.CA) {
	t.Helper()
	dir := filepath.Join(c.dir, id, label)
	require.NoError(t, os.MkdirAll(dir, 0o700))
	leaf.WriteDir(t, dir, ca)
}

// clusterEntries lists the clusters with their labels, as a sender or, with less
// of them, as what an operator may relay.
func clusterEntries(format string) string {
	var entries []string
	for _, id := range chainClusters {
		entries = append(entries, fmt.Sprintf(format, identity.SenderName(chainRegional, id), chainOrg, id, "of "+id))
	}
	return "[" + strings.Join(entries, ", ") + "]"
}

// startCentral starts the central operator with what is laid over it.
func (c *chain) startCentral(t *testing.T, overlay string, env ...string) {
	t.Helper()
	vouches := clusterEntries("{org_id: %[2]s, cluster_id: %[3]s, labels: {tier: %[4]s}}")
	sender := fmt.Sprintf("[{name: %s, kind: operator, org_id: %s, operator_id: %s, operator_name: EU West, labels: {region: eu-west}, vouches: %s}]",
		identity.SenderName(chainCentral, chainRegional), chainOrg, chainRegional, vouches)
	c.define(t, chainCentral, distributions.Central, fmt.Sprintf(operatorOverlay, sender), overlay, append(env, "CONTINUUM_OPERATOR_ID="+chainCentral)...)
}

// startRegional starts the regional operator, which sends to the central one.
func (c *chain) startRegional(t *testing.T, overlay string) {
	t.Helper()
	senders := clusterEntries("{name: %s, kind: cluster, org_id: %s, cluster_id: %s, labels: {tier: %s}}")
	c.define(t, chainRegional, distributions.Regional, fmt.Sprintf(operatorOverlay, senders), overlay,
		"CONTINUUM_OPERATOR_ID="+chainRegional, "CONTINUUM_OPERATOR_NAME=EU West", "CONTINUUM_OPERATOR_LABELS={region: eu-west}",
		"CONTINUUM_DESTINATION="+c.otlp(chainCentral),
		"CONTINUUM_DESTINATION_NAME="+identity.StableName(chainCentral))
}

// startCluster starts a cluster's collector, which sends to the regional operator.
func (c *chain) startCluster(t *testing.T, id, overlay string) {
	t.Helper()
	ca := c.ca[chainRegional]
	c.hold(t, id, "export", ca.Sender(t, controlapi.KindCluster, id), ca)
	c.define(t, id, distributions.Cluster, clusterOverlay, overlay,
		"CONTINUUM_DESTINATION="+c.otlp(chainRegional),
		"CONTINUUM_DESTINATION_NAME="+identity.StableName(chainRegional))
}

// define writes a collector's configuration and starts it for the first time.
func (c *chain) define(t *testing.T, id string, config []byte, base, overlay string, env ...string) {
	t.Helper()
	state := filepath.Join(c.dir, id)
	var args []string
	for i, text := range []string{string(config), base, overlay} {
		path := filepath.Join(c.dir, fmt.Sprintf("%s-%d.yaml", id, i))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		args = append(args, "--config", path)
	}
	c.grpcPort[id] = freePort(t)
	health := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	p := &process{
		log: filepath.Join(c.dir, id+".log"), program: program(t, "continuum-collector"), args: args,
		ready: "http://" + health + "/",
		env: slices.Concat(c.env, env, []string{
			"CONTINUUM_STATE=" + state, "CONTINUUM_LISTEN=127.0.0.1", "CONTINUUM_HEALTH_ENDPOINT=" + health,
			fmt.Sprintf("CONTINUUM_GRPC_PORT=%d", c.grpcPort[id]),
			fmt.Sprintf("CONTINUUM_HTTP_PORT=%d", freePort(t)),
			fmt.Sprintf("CONTINUUM_METRICS_PORT=%d", freePort(t)),
		}),
	}
	c.collectors[id] = p
	t.Cleanup(func() { p.kill(t) })
	p.start(t)
}

// otlp is the address at which a collector of the chain takes OTLP over gRPC.
func (c *chain) otlp(id string) string { return fmt.Sprintf("127.0.0.1:%d", c.grpcPort[id]) }

// explain says how the collectors ended or what they logged last, for a failure.
func (c *chain) explain() string {
	var text strings.Builder
	for _, id := range slices.Sorted(maps.Keys(c.collectors)) {
		fmt.Fprintf(&text, "%s:\n%s\n", id, c.collectors[id].tail())
	}
	return text.String()
}

// process is a program that is started, stopped and killed on what it has on disk.
type process struct {
	log, program string
	args, env    []string
	ready        string // URL that answers 200 once it serves
	cmd          *exec.Cmd
	ended        chan struct{}
}

func (p *process) start(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	require.NoError(t, err)
	p.cmd = exec.Command(p.program, p.args...)
	p.cmd.Env = append(os.Environ(), p.env...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	require.NoError(t, p.cmd.Start())
	require.NoError(t, log.Close(), "the child has its own descriptor")
	p.ended = make(chan struct{})
	go func() {
		_ = p.cmd.Wait() // whoever stops or awaits it looks at the log
		close(p.ended)
	}()
	p.awaitReady(t)
}

func (p *process) awaitReady(t *testing.T) {
	t.Helper()
	ctx := testContext(t, 2*time.Minute)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if code, _, err := get(ctx, p.ready); err == nil && code == http.StatusOK {
			return
		}
		select {
		case <-tick.C:
		case <-p.ended:
			t.Fatalf("%s ended:\n%s", p.log, p.tail())
		case <-ctx.Done():
			t.Fatalf("%s does not serve:\n%s", p.log, p.tail())
		}
	}
}

// stop asks the program to end, as an orchestrator does, and waits until it has.
func (p *process) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-p.ended:
	case <-time.After(2 * time.Minute):
		t.Fatalf("%s does not stop:\n%s", p.log, p.tail())
	}
}

// kill ends the program at once; one that has ended stays so.
func (p *process) kill(t *testing.T) {
	t.Helper()
	if p.ended == nil {
		return
	}
	if err := p.cmd.Process.Kill(); err != nil {
		require.ErrorIs(t, err, os.ErrProcessDone)
	}
	<-p.ended
}

func (p *process) tail() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}

// freePort returns a loopback port that was free, of those that no outgoing
// connection takes.
func freePort(t *testing.T) int {
	t.Helper()
	for range 100 {
		port := 12000 + rand.IntN(20000)
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			require.NoError(t, listener.Close())
			return port
		}
		require.ErrorIs(t, err, syscall.EADDRINUSE)
	}
	require.NoError(t, errors.New("no free port"))
	return 0
}

// get reads a URL on a connection of its own.
func get(ctx context.Context, url string) (code int, body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, nil, err
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err = io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}
