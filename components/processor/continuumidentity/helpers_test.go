// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package continuumidentity

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/client"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/collector/processor/xprocessor"

	"github.com/ikhnos/continuum/components/processor/continuumidentity/internal/metadata"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/identity"
)

// The senders that tests use: a cluster, and an operator that may relay two
// clusters of the same id in two organisations and one more.
func clusterSender() *identity.Sender {
	return &identity.Sender{
		Name: "op-abc-export-c1", Kind: controlapi.KindCluster, OrgID: "org1", ClusterID: "c1",
		Labels: map[string]string{"region": "eu-west", "env": "prod"},
	}
}

func operatorSender() *identity.Sender {
	return &identity.Sender{
		Name: "op-central-export-op-abc", Kind: controlapi.KindOperator, OrgID: "org1",
		OperatorID: "op-abc", OperatorName: "EU West", Labels: map[string]string{"region": "eu-west"},
		Vouches: []controlapi.Vouch{
			{OrgID: "org1", ClusterID: "c1", Labels: map[string]string{"env": "prod", "Region": "shadowed"}},
			{OrgID: "org2", ClusterID: "c1", Labels: map[string]string{"env": "test"}},
			{OrgID: "org1", ClusterID: "c2", Labels: map[string]string{"project": "p2"}},
		},
	}
}

func as(sender *identity.Sender) context.Context {
	return client.NewContext(context.Background(), client.Info{Auth: &identity.AuthData{Sender: sender, Serial: "0a"}})
}

// senderConfig is the configuration of `continuumidentity/sender`.
func senderConfig(mode Mode) *Config {
	cfg := createDefaultConfig().(*Config)
	cfg.Sender = configoptional.Some(SenderConfig{Mode: mode, Attributes: certnameauthAttributes})
	return cfg
}

// operatorConfig is the configuration of `continuumidentity/operator`.
func operatorConfig() *Config {
	cfg := createDefaultConfig().(*Config)
	cfg.Operator = configoptional.Some(OperatorConfig{ID: "op-abc", Name: "EU West", Labels: map[string]string{"region": "eu-west"}})
	return cfg
}

func newTraces(t testing.TB, cfg *Config, next consumer.Traces) processor.Traces {
	t.Helper()
	return newTracesWith(t, processortest.NewNopSettings(metadata.Type), cfg, next)
}

func newTracesWith(t testing.TB, set processor.Settings, cfg *Config, next consumer.Traces) processor.Traces {
	t.Helper()
	p, err := NewFactory().CreateTraces(context.Background(), set, cfg, next)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Shutdown(context.Background())) })
	return p
}

func newMetrics(t testing.TB, cfg *Config, next consumer.Metrics) processor.Metrics {
	t.Helper()
	p, err := NewFactory().CreateMetrics(context.Background(), processortest.NewNopSettings(metadata.Type), cfg, next)
	require.NoError(t, err)
	return shutDown(t, p)
}

func newLogs(t testing.TB, cfg *Config, next consumer.Logs) processor.Logs {
	t.Helper()
	p, err := NewFactory().CreateLogs(context.Background(), processortest.NewNopSettings(metadata.Type), cfg, next)
	require.NoError(t, err)
	return shutDown(t, p)
}

func newProfiles(t testing.TB, cfg *Config, next xconsumerProfiles) xprocessor.Profiles {
	t.Helper()
	p, err := NewFactory().(xprocessor.Factory).CreateProfiles(context.Background(), processortest.NewNopSettings(metadata.Type), cfg, next)
	require.NoError(t, err)
	return shutDown(t, p)
}

func shutDown[T component.Component](t testing.TB, c T) T {
	t.Cleanup(func() { require.NoError(t, c.Shutdown(context.Background())) })
	return c
}

// oneSpan is a request of one span whose resource has the given attributes, in
// their order and with duplicates.
func oneSpan(t testing.TB, attrs ...kv) ptrace.Traces {
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	fill(t, rs.Resource().Attributes(), attrs...)
	rs.ScopeSpans().AppendEmpty().Spans().AppendEmpty().SetName("s")
	return td
}
