// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package continuumidentity

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ikhnos/continuum/internal/identity"
)

// What a resource of the cluster c1 ends with when nothing else is kept.
var ofC1 = []kv{{"continuum.org.id", "org1"}, {"continuum.cluster.id", "c1"}, {"env", "prod"}, {"region", "eu-west"}}

// What a resource of the operator op-abc itself ends with.
var ofOperator = []kv{{"continuum.operator.id", "op-abc"}, {"continuum.operator.name", "EU West"}, {"region", "eu-west"}}

func after(parts ...[]kv) (all []kv) {
	for _, part := range parts {
		all = append(all, part...)
	}
	return all
}

// ruleCases are resources, what `stamp` makes of them, and the reason for which
// `enforce` drops them, empty when it does what `stamp` does.
var ruleCases = []struct {
	name    string
	sender  func() *identity.Sender
	sent    []kv
	stamped []kv
	dropped string
}{
	// a cluster.
	{"cluster: nothing claimed", clusterSender, []kv{{"service.name", "a"}},
		after([]kv{{"service.name", "a"}}, ofC1), ""},
	{"cluster: own identity", clusterSender, []kv{{"continuum.cluster.id", "c1"}, {"a", 1}, {"continuum.org.id", "org1"}},
		[]kv{{"continuum.cluster.id", "c1"}, {"a", int64(1)}, {"continuum.org.id", "org1"}, {"env", "prod"}, {"region", "eu-west"}}, ""},
	{"cluster: another cluster", clusterSender, []kv{{"continuum.org.id", "org1"}, {"continuum.cluster.id", "c2"}}, ofC1, "identity_conflict"},
	{"cluster: another organisation, same cluster id", clusterSender, []kv{{"continuum.org.id", "org2"}, {"continuum.cluster.id", "c1"}}, ofC1, "identity_conflict"},
	{"cluster: claim is a number", clusterSender, []kv{{"continuum.org.id", 5}, {"continuum.cluster.id", "c1"}}, ofC1, "identity_conflict"},
	{"cluster: claim is a list of itself", clusterSender, []kv{{"continuum.org.id", "org1"}, {"continuum.cluster.id", []any{"c1"}}}, ofC1, "identity_conflict"},
	{"cluster: claim without a value", clusterSender, []kv{{"continuum.org.id", nil}}, ofC1, "identity_conflict"},
	{"cluster: empty claims", clusterSender, []kv{{"continuum.org.id", ""}, {"continuum.cluster.id", ""}}, ofC1, ""},
	{"cluster: equal duplicates", clusterSender, []kv{{"continuum.org.id", "org1"}, {"continuum.org.id", "org1"}}, ofC1, ""},
	{"cluster: empty and own", clusterSender, []kv{{"continuum.org.id", ""}, {"continuum.org.id", "org1"}}, ofC1, ""},
	{"cluster: unequal duplicates", clusterSender, []kv{{"continuum.cluster.id", "c1"}, {"continuum.cluster.id", "c2"}},
		[]kv{{"continuum.cluster.id", "c1"}, {"continuum.org.id", "org1"}, {"env", "prod"}, {"region", "eu-west"}}, "identity_conflict"},
	{"cluster: claims to be an operator", clusterSender, []kv{{"continuum.operator.id", "op-abc"}, {"continuum.operator.name", "EU West"}}, ofC1, ""},
	{"cluster: look-alikes are no claims", clusterSender, []kv{{"Continuum.Org.Id", "x"}, {"continuum_cluster_id", "y"}, {"__continuum", "z"}, {"k", "v"}},
		after([]kv{{"k", "v"}}, ofC1), ""},
	{"cluster: tenant keys", clusterSender, []kv{{"vm_account_id", "1"}, {"VM.Project.ID", 2}}, ofC1, ""},
	{"cluster: labels", clusterSender, []kv{{"Region", "us"}, {"region", "us"}, {"x", "y"}, {"region", "us"}, {"env", 3}},
		[]kv{{"region", "eu-west"}, {"x", "y"}, {"env", "prod"}, {"continuum.org.id", "org1"}, {"continuum.cluster.id", "c1"}}, ""},
	{"cluster: intent", clusterSender, []kv{{"continuum.intent.id", "i1"}}, after([]kv{{"continuum.intent.id", "i1"}}, ofC1), ""},
	{"cluster: intent twice", clusterSender, []kv{{"continuum.intent.id", ""}, {"continuum.intent.id", "i1"}, {"continuum.intent.id", "i1"}},
		after([]kv{{"continuum.intent.id", "i1"}}, ofC1), ""},
	{"cluster: two intents", clusterSender, []kv{{"continuum.intent.id", "i1"}, {"continuum.intent.id", "i2"}}, ofC1, ""},
	{"cluster: intent of 63 characters", clusterSender, []kv{{"continuum.intent.id", strings.Repeat("ä", 63)}},
		after([]kv{{"continuum.intent.id", strings.Repeat("ä", 63)}}, ofC1), ""},
	{"cluster: intent of 64 characters", clusterSender, []kv{{"continuum.intent.id", strings.Repeat("i", 64)}}, ofC1, ""},
	{"cluster: intent is no string", clusterSender, []kv{{"continuum.intent.id", true}}, ofC1, ""},
	{"cluster: hidden under an empty key", clusterSender, []kv{{"", map[string]any{"continuum.org.id": "x", "k": "v"}}},
		after([]kv{{"", map[string]any{"k": "v"}}}, ofC1), ""},
	{"cluster: inside another value", clusterSender, []kv{{"k", map[string]any{"continuum.org.id": "x"}}},
		after([]kv{{"k", map[string]any{"continuum.org.id": "x"}}}, ofC1), ""},

	// an operator. Two organisations have a cluster c1.
	{"operator: its own data", operatorSender, []kv{{"service.name", "a"}}, after([]kv{{"service.name", "a"}}, ofOperator), ""},
	{"operator: vouched", operatorSender, []kv{{"continuum.org.id", "org1"}, {"continuum.cluster.id", "c1"}},
		after([]kv{{"continuum.org.id", "org1"}, {"continuum.cluster.id", "c1"}, {"env", "prod"}}, ofOperator), ""},
	{"operator: same cluster id in another organisation", operatorSender, []kv{{"continuum.org.id", "org2"}, {"continuum.cluster.id", "c1"}},
		after([]kv{{"continuum.org.id", "org2"}, {"continuum.cluster.id", "c1"}, {"env", "test"}}, ofOperator), ""},
	{"operator: labels of other pairs go", operatorSender, []kv{{"continuum.org.id", "org1"}, {"continuum.cluster.id", "c2"}, {"env", "forged"}, {"ENV", "forged"}},
		after([]kv{{"continuum.org.id", "org1"}, {"continuum.cluster.id", "c2"}, {"project", "p2"}}, ofOperator), ""},
	{"operator: pair not vouched", operatorSender, []kv{{"continuum.org.id", "org2"}, {"continuum.cluster.id", "c2"}}, ofOperator, "origin_not_vouched"},
	{"operator: foreign organisation", operatorSender, []kv{{"continuum.org.id", "org3"}, {"continuum.cluster.id", "c1"}}, ofOperator, "origin_not_vouched"},
	{"operator: half a pair", operatorSender, []kv{{"continuum.org.id", "org1"}}, ofOperator, "origin_not_vouched"},
	{"operator: the other half", operatorSender, []kv{{"continuum.cluster.id", "c1"}, {"continuum.org.id", ""}}, ofOperator, "origin_not_vouched"},
	{"operator: pair with unequal duplicates", operatorSender, []kv{{"continuum.org.id", "org1"}, {"continuum.org.id", "org2"}, {"continuum.cluster.id", "c1"}}, ofOperator, "identity_conflict"},
	{"operator: pair is no string", operatorSender, []kv{{"continuum.org.id", "org1"}, {"continuum.cluster.id", 1}}, ofOperator, "identity_conflict"},
	{"operator: empty pair", operatorSender, []kv{{"continuum.org.id", ""}, {"continuum.cluster.id", ""}}, ofOperator, ""},
	// a record of two hops keeps the id of the first.
	{"operator: own id", operatorSender, []kv{{"continuum.operator.id", "op-abc"}, {"continuum.org.id", "org2"}, {"continuum.cluster.id", "c1"}},
		[]kv{{"continuum.operator.id", "op-abc"}, {"continuum.org.id", "org2"}, {"continuum.cluster.id", "c1"}, {"env", "test"}, {"continuum.operator.name", "EU West"}, {"region", "eu-west"}}, ""},
	{"operator: another operator's id", operatorSender, []kv{{"continuum.operator.id", "op-xyz"}}, ofOperator, "identity_conflict"},
	{"operator: another id and a foreign pair", operatorSender, []kv{{"continuum.operator.id", "op-xyz"}, {"continuum.org.id", "org3"}, {"continuum.cluster.id", "c1"}}, ofOperator, "identity_conflict"},
	{"operator: another name", operatorSender, []kv{{"continuum.operator.name", "US"}, {"continuum.operator.name", 7}}, // over whatever was sent
		[]kv{{"continuum.operator.name", "EU West"}, {"continuum.operator.id", "op-abc"}, {"region", "eu-west"}}, ""},
	{"operator: intent", operatorSender, []kv{{"continuum.intent.id", "i1"}}, after([]kv{{"continuum.intent.id", "i1"}}, ofOperator), ""},
}

// canonical puts what may stand anywhere in one order: an overwritten attribute
// keeps its place, which the cases do not all spell out.
func canonical(attrs []kv) map[string]any {
	m := make(map[string]any, len(attrs))
	for _, a := range attrs {
		m[a.key] = a.value
	}
	return m
}

func TestRules(t *testing.T) { // ID-9, ID-10, A-18, A-19, A-20, A-36
	for _, tc := range ruleCases {
		t.Run("stamp "+tc.name, func(t *testing.T) {
			sink := new(consumertest.TracesSink)
			p := newTraces(t, senderConfig(ModeStamp), sink)
			require.NoError(t, p.ConsumeTraces(as(tc.sender()), oneSpan(t, tc.sent...)))
			got := list(sink.AllTraces()[0].ResourceSpans().At(0).Resource().Attributes())
			assert.Len(t, got, len(tc.stamped), "no duplicates: %v", got)
			assert.Equal(t, canonical(tc.stamped), canonical(got))
			assert.Equal(t, 1, sink.SpanCount())
		})
		t.Run("enforce "+tc.name, func(t *testing.T) {
			sink := new(consumertest.TracesSink)
			p := newTraces(t, senderConfig(ModeEnforce), sink)
			err := p.ConsumeTraces(as(tc.sender()), oneSpan(t, tc.sent...))
			if tc.dropped != "" {
				assertRefused(t, err, codes.InvalidArgument, tc.dropped)
				assert.Empty(t, sink.AllTraces())
				return
			}
			require.NoError(t, err)
			got := list(sink.AllTraces()[0].ResourceSpans().At(0).Resource().Attributes())
			assert.Equal(t, canonical(tc.stamped), canonical(got))
		})
	}
}

// The order of what stays is the order in which it came; what is missing is
// written at the end.
func TestOrder(t *testing.T) {
	sink := new(consumertest.TracesSink)
	p := newTraces(t, senderConfig(ModeStamp), sink)
	require.NoError(t, p.ConsumeTraces(as(clusterSender()), oneSpan(t,
		kv{"z", 1}, kv{"Continuum", 1}, kv{"a", 2}, kv{"env", "x"}, kv{"z", 3}, kv{"m", 4})))
	assert.Equal(t, []kv{{"z", int64(1)}, {"a", int64(2)}, {"env", "prod"}, {"z", int64(3)}, {"m", int64(4)},
		{"continuum.org.id", "org1"}, {"continuum.cluster.id", "c1"}, {"region", "eu-west"}},
		list(sink.AllTraces()[0].ResourceSpans().At(0).Resource().Attributes()))
}

func TestOff(t *testing.T) {
	sink := new(consumertest.TracesSink)
	p := newTraces(t, senderConfig(ModeOff), sink)
	td := oneSpan(t, kv{"continuum.org.id", 5}, kv{"continuum.cluster.id", "x"}, kv{"continuum.cluster.id", "y"},
		kv{"continuum.operator.id", "op"}, kv{"Continuum.Operator.Id", "op"}, kv{"continuum.operator.name", "n"},
		kv{"continuum.intent.id", ""}, kv{"continuum.other", "o"}, kv{"vm_account_id", "1"}, kv{"region", "us"},
		kv{".", map[string]any{"continuum.org.id": "x"}})
	fill(t, td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).Attributes(), kv{"continuum.org.id", "x"}, kv{"k", "v"})
	require.NoError(t, p.ConsumeTraces(t.Context(), td), "needs no identity")
	rs := sink.AllTraces()[0].ResourceSpans().At(0)
	assert.Equal(t, []kv{{"continuum.org.id", int64(5)}, {"continuum.cluster.id", "x"}, {"continuum.cluster.id", "y"},
		{"continuum.operator.id", "op"}, {"continuum.operator.name", "n"}, {"continuum.intent.id", ""}, {"region", "us"},
		{".", map[string]any{}}}, list(rs.Resource().Attributes()))
	assert.Equal(t, []kv{{"k", "v"}}, list(rs.ScopeSpans().At(0).Spans().At(0).Attributes()))
}

// A cluster that dials a central operator and calls itself an operator.
func TestEnforcePassesTheRestOn(t *testing.T) {
	sink := new(consumertest.TracesSink)
	p := newTraces(t, senderConfig(ModeEnforce), sink)
	td := oneSpan(t, kv{"continuum.cluster.id", "other"})
	oneSpan(t, kv{"service.name", "good"}).ResourceSpans().MoveAndAppendTo(td.ResourceSpans())
	oneSpan(t, kv{"continuum.org.id", "org9"}).ResourceSpans().MoveAndAppendTo(td.ResourceSpans())
	require.NoError(t, p.ConsumeTraces(as(clusterSender()), td))
	require.Equal(t, 1, sink.AllTraces()[0].ResourceSpans().Len())
	name, _ := sink.AllTraces()[0].ResourceSpans().At(0).Resource().Attributes().Get("service.name")
	assert.Equal(t, "good", name.Str())
}

func assertRefused(t *testing.T, err error, code codes.Code, reason string) {
	t.Helper()
	require.Error(t, err)
	s, ok := status.FromError(err)
	require.True(t, ok)
	assert.Equal(t, code, s.Code())
	word, _, _ := strings.Cut(s.Message(), " ")
	assert.Equal(t, reason, word)
	require.Len(t, s.Details(), 1)
	assert.Contains(t, s.Proto().String(), reason)
}
