// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/distributions"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/identity"
	"github.com/ikhnos/continuum/internal/testpki"
	"github.com/ikhnos/continuum/test/testbed"
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
	collectors map[string]*testbed.Collector
	grpcPort   map[string]int
}

// What is laid over the shipped configuration: no renewal, no control server, and
// from a cluster's collector nothing of this machine.
const (
	operatorOverlay = `
extensions:
  health_check: {endpoint: "${env:TESTBED_HEALTH}"}
  certnameauth: {policy: {enabled: false}, senders: %s}
service:
  extensions: [health_check, file_storage, certnameauth]
`
	clusterOverlay = `
extensions: {health_check: {endpoint: "${env:TESTBED_HEALTH}"}}
service:
  extensions: [health_check, file_storage]
  pipelines: {metrics: {receivers: [otlp]}, logs: {receivers: [otlp]}}
`
)

func newChain(t *testing.T, env ...string) *chain {
	t.Helper()
	c := &chain{
		dir: testbed.Dir(t), env: env, collectors: map[string]*testbed.Collector{}, grpcPort: map[string]int{},
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

// define starts a collector for the first time; await waits for it.
func (c *chain) define(t *testing.T, id string, config []byte, base, overlay string, env ...string) {
	t.Helper()
	dir := filepath.Join(c.dir, id)
	require.NoError(t, os.MkdirAll(dir, 0o700))
	c.grpcPort[id] = testbed.Port(t)
	c.collectors[id] = testbed.NewCollector(t, testbed.CollectorSpec{
		Name: id, Dir: dir, Config: []string{string(config), base, overlay},
		Env: slices.Concat(c.env, env, []string{
			"CONTINUUM_STATE=" + dir, "CONTINUUM_LISTEN=127.0.0.1",
			fmt.Sprintf("CONTINUUM_GRPC_PORT=%d", c.grpcPort[id]),
			fmt.Sprintf("CONTINUUM_HTTP_PORT=%d", testbed.Port(t)),
			fmt.Sprintf("CONTINUUM_METRICS_PORT=%d", testbed.Port(t)),
		}),
	})
	c.collectors[id].Launch()
}

// await waits until every collector of the chain is ready.
func (c *chain) await(t *testing.T) {
	t.Helper()
	for _, collector := range c.collectors {
		collector.WaitReady()
	}
}

// otlp is the address at which a collector of the chain takes OTLP over gRPC.
func (c *chain) otlp(id string) string { return fmt.Sprintf("127.0.0.1:%d", c.grpcPort[id]) }
