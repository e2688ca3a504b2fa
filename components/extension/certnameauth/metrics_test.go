// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certnameauth

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"
	"google.golang.org/grpc/codes"

	"github.com/ikhnos/continuum/components/extension/certnameauth/internal/metadatatest"
	"github.com/ikhnos/continuum/components/extension/certnameauth/internal/senders"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/testpki"
)

const requestsMetric = "otelcol_extension_certnameauth_requests"

func (r *rig) points() []metricdata.DataPoint[int64] {
	r.t.Helper()
	got, err := r.tel.GetMetric(requestsMetric)
	if err != nil {
		return nil
	}
	return got.Data.(metricdata.Sum[int64]).DataPoints
}

// outcomes sums the requests by outcome.
func (r *rig) outcomes() map[string]int64 {
	sums := map[string]int64{}
	for _, point := range r.points() {
		outcome, _ := point.Attributes.Value("outcome")
		sums[outcome.AsString()] += point.Value
	}
	return sums
}

func TestMetrics(t *testing.T) {
	ca := testpki.NewCA(t, operatorID)
	s := newFakeServer(t, ca)
	p := policyOf(3, 7, "c1", "c2", "c3")
	p.Senders[1].State, p.Senders[2].State = controlapi.SenderHeld, "later"
	p.RevokedSerials = []string{"01", "02"}
	s.publish(signPolicy(t, ca, p))
	r := newRig(t, ca, policyConfig(t, ca, s), options{})
	r.inForce(3, 7)
	leaf := sender(t, ca, "c1")
	for _, w := range r.wires(leaf)[:2] {
		requireAccepted(t, w.send())
	}
	for range 10 { // unknown certificates add one series
		stranger := r.wires(sender(t, ca, "c9", testpki.Between(time.Now().Add(-time.Hour), time.Now().Add(time.Hour))))[0]
		assert.Equal(t, codes.PermissionDenied, stranger.send().code)
	}
	set := func(kv ...string) attribute.Set {
		var attrs []attribute.KeyValue
		for i := 0; i < len(kv); i += 2 {
			attrs = append(attrs, attribute.String(kv[i], kv[i+1]))
		}
		return attribute.NewSet(attrs...)
	}
	ts := metricdatatest.IgnoreTimestamp()
	metadatatest.AssertEqualExtensionCertnameauthRequests(t, r.tel, []metricdata.DataPoint[int64]{
		{Attributes: set("sender", "op-abc-export-c1", "transport", "grpc", "outcome", "accepted"), Value: 1},
		{Attributes: set("sender", "op-abc-export-c1", "transport", "http", "outcome", "accepted"), Value: 1},
		{Attributes: set("sender", "_other", "transport", "grpc", "outcome", "sender_unknown"), Value: 10},
	}, ts)
	metadatatest.AssertEqualExtensionCertnameauthSenders(t, r.tel, []metricdata.DataPoint[int64]{
		{Attributes: set("state", "allowed"), Value: 1}, {Attributes: set("state", "held"), Value: 1}, {Attributes: set("state", "revoked"), Value: 1},
	}, ts)
	metadatatest.AssertEqualExtensionCertnameauthRevokedSerials(t, r.tel, []metricdata.DataPoint[int64]{
		{Attributes: set("source", "policy"), Value: 2}, {Attributes: set("source", "crl"), Value: 0},
	}, ts)
	metadatatest.AssertEqualExtensionCertnameauthSenderLeafExpiry(t, r.tel, []metricdata.DataPoint[int64]{
		{Attributes: set("sender", "op-abc-export-c1"), Value: leaf.Cert.NotAfter.Unix()},
	}, ts)
	metadatatest.AssertEqualExtensionCertnameauthPolicyNumber(t, r.tel, []metricdata.DataPoint[int64]{{Value: 7}}, ts)
	metadatatest.AssertEqualExtensionCertnameauthPolicyFetches(t, r.tel, []metricdata.DataPoint[int64]{
		{Attributes: set("outcome", "updated"), Value: 1},
	}, ts)
	age, err := r.tel.GetMetric("otelcol_extension_certnameauth_policy_age")
	require.NoError(t, err)
	assert.LessOrEqual(t, age.Data.(metricdata.Gauge[int64]).DataPoints[0].Value, int64(waitLong.Seconds()))
}

// TM-12: one line per sender, reason and minute, with the count since the last.
func TestRefusalsAreLoggedOncePerMinute(t *testing.T) {
	ca := testpki.NewCA(t, operatorID)
	r := newRig(t, ca, staticConfig("c1"), options{})
	held := r.wires(sender(t, ca, "c9"))
	lines := func() int { return r.logs.FilterMessage("Requests refused").Len() }
	for range 5 {
		held[0].send()
	}
	require.Eventually(t, func() bool { return lines() == 1 }, waitLong, tick)
	r.clock.move(61 * time.Second)
	held[1].send()
	require.Eventually(t, func() bool { return lines() == 2 }, waitLong, tick)
	var counts []int64
	for _, entry := range r.logs.FilterMessage("Requests refused").All() {
		fields := entry.ContextMap()
		assert.Equal(t, "sender_unknown", fields["reason"])
		assert.Equal(t, "_other", fields["sender"])
		assert.Contains(t, fields["certificate_names"], "op-abc-export-c9")
		assert.NotContains(t, entry.Message, "BEGIN")
		counts = append(counts, fields["count"].(int64))
	}
	assert.Equal(t, int64(6), counts[0]+counts[1])
}

// trap-14: every refusal says what is wrong, what ends it and whether a retry
// helps.
func TestEveryReasonHasItsAnswer(t *testing.T) {
	for reason := senders.Accepted + 1; reason < senders.Reasons; reason++ {
		assert.NotEmpty(t, reason.String())
		assert.NotEmpty(t, sentences[reason], reason)
		assert.Contains(t, sentences[reason], ";", "%s: the remedy", reason)
		assert.NotEmpty(t, refusals[reason].protobuf)
		assert.NotEmpty(t, refusals[reason].json)
		a := grpcAnswer(refusals[reason].err)
		assert.Equal(t, reason.String(), a.reason)
		assert.Equal(t, reason.Retryable(), a.code == codes.Unavailable)
	}
}
