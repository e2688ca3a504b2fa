// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"

	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/identity"
	"github.com/ikhnos/continuum/test/testbed"
)

// storesOverlay sends to each store in each way that the shipped configuration
// knows: VictoriaMetrics and Prometheus by OTLP and by remote write, VictoriaLogs
// by OTLP with and without prefixes. The first of each is the exporter that ships,
// the second has another name and the same settings.
const storesOverlay = `
exporters:
  otlp_http/metrics: &quick {sending_queue: {batch: {flush_timeout: 100ms}}}
  otlp_http/logs: *quick
  prometheus_remote_write/victoriametrics:
    endpoint: %[1]s/api/v1/write
    resource_to_telemetry_conversion: {enabled: true}
  otlp_http/prometheus:
    metrics_endpoint: %[2]s/api/v1/otlp/v1/metrics
service:
  pipelines:
    metrics: {exporters: [otlp_http/metrics, prometheus_remote_write, prometheus_remote_write/victoriametrics, otlp_http/prometheus]}
`

// storeNames are the metrics that are sent, in the normal form of their names.
var storeNames = []string{"e2e_queue_length", "e2e_requests", "e2e_duration"}

// TestStores sends records of two clusters, which forge another origin wherever
// OTLP has attributes, over two hops into real stores and asks these who sent
// what: under every reserved name and label each shows the right value, once, and
// no forged one anywhere (ID-1 to ID-6, PO-1 to PO-4, A-17 to A-20).
func TestStores(t *testing.T) {
	if testing.Short() {
		t.Skip("starts seven processes")
	}
	ctx := testbed.Context(t, 5*time.Minute)
	vm, vmRemote := startVictoriaMetrics(t, "VictoriaMetrics by OTLP"), startVictoriaMetrics(t, "VictoriaMetrics by remote write")
	prom, promRemote := startPrometheus(t, "Prometheus by OTLP"), startPrometheus(t, "Prometheus by remote write")
	vl := startVictoriaLogs(t)

	c := newChain(t)
	c.startCentral(t, fmt.Sprintf(storesOverlay, vmRemote.url, prom.url),
		"CONTINUUM_METRICS_URL="+vm.url+"/opentelemetry/v1/metrics",
		"CONTINUUM_REMOTE_WRITE_URL="+promRemote.url+"/api/v1/write",
		"CONTINUUM_LOGS_URL="+vl.url+"/insert/opentelemetry/v1/logs")
	c.startRegional(t, quickRegional)
	c.await(t)
	for _, id := range chainClusters {
		s := newSender(testbed.DialOTLP(t, c.otlp(chainRegional), c.clientTLS(t, id)), id)
		logs := s.someLogs(0)
		logs.ResourceLogs().At(0).Resource().Attributes().PutStr("region", "forged")
		_, err := s.logs.Export(ctx, plogotlp.NewExportRequestFromLogs(logs))
		require.NoError(t, err)
		_, err = s.metrics.Export(ctx, pmetricotlp.NewExportRequestFromMetrics(s.metricsForStores()))
		require.NoError(t, err)
	}
	for _, s := range []*store{vm, vmRemote, prom, promRemote} {
		t.Run(s.name, func(t *testing.T) { s.checkSeries(t) })
	}
	t.Run("labels below the resource", func(t *testing.T) {
		vm.checkLabelBelow(t, "own word")
		prom.checkLabelBelow(t, "own word")
		vmRemote.checkLabelBelow(t, "eu-west")
		promRemote.checkLabelBelow(t, "eu-west")
	})
	for _, s := range []*store{prom, promRemote} {
		t.Run("exemplars of "+s.name, func(t *testing.T) { s.checkExemplars(t) })
	}
	t.Run(vl.name, func(t *testing.T) { vl.checkLogs(t) })
}

// clientTLS is what an application of a cluster connects with when it sends to
// the regional operator without a collector in between.
func (c *chain) clientTLS(t *testing.T, id string) *tls.Config {
	t.Helper()
	ca := c.ca[chainRegional]
	return &tls.Config{
		RootCAs: ca.Pool(), ServerName: identity.StableName(chainRegional), MinVersion: tls.VersionTLS13,
		Certificates: []tls.Certificate{ca.Sender(t, controlapi.KindCluster, id).TLS},
	}
}

// metricsForStores are a gauge, a sum and a histogram, whose resource forges
// labels too.
func (s *sender) metricsForStores() pmetric.Metrics {
	md := s.someMetrics(0)
	rm := md.ResourceMetrics().At(0)
	for _, key := range []string{"region", "Region", "tier"} {
		rm.Resource().Attributes().PutStr(key, "forged")
	}
	rm.Resource().Attributes().PutStr("service.instance.id", "one")
	metrics := rm.ScopeMetrics().At(0).Metrics()
	at := pcommon.NewTimestampFromTime(time.Now())
	describe := func(name string, attributes pcommon.Map, exemplar pmetric.Exemplar) {
		attributes.PutStr(keyID, s.id(name, 0, 0))
		forge(attributes)
		exemplar.SetTimestamp(at)
		exemplar.SetDoubleValue(1)
		exemplar.FilteredAttributes().PutStr(keyID, s.id(name, 0, 0))
		forge(exemplar.FilteredAttributes())
	}

	requests := metrics.AppendEmpty()
	requests.SetName("e2e.requests")
	sum := requests.SetEmptySum()
	sum.SetIsMonotonic(true)
	sum.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	point := sum.DataPoints().AppendEmpty()
	point.SetTimestamp(at)
	point.SetIntValue(3)
	describe("requests", point.Attributes(), point.Exemplars().AppendEmpty())

	duration := metrics.AppendEmpty()
	duration.SetName("e2e.duration")
	histogram := duration.SetEmptyHistogram()
	histogram.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	bucket := histogram.DataPoints().AppendEmpty()
	bucket.SetTimestamp(at)
	bucket.SetCount(3)
	bucket.SetSum(3)
	bucket.ExplicitBounds().FromRaw([]float64{1, 2})
	bucket.BucketCounts().FromRaw([]uint64{1, 1, 1})
	describe("duration", bucket.Attributes(), bucket.Exemplars().AppendEmpty())

	below := metrics.AppendEmpty()
	below.SetName("below")
	point = below.SetEmptyGauge().DataPoints().AppendEmpty()
	point.SetTimestamp(at)
	point.SetIntValue(1)
	point.Attributes().PutStr("region", "own word")
	return md
}

// shown checks one set of labels or fields and returns whose it is.
func (s *store) shown(t *testing.T, labels map[string]string) (cluster string) {
	t.Helper()
	reserved := identity.NewReserved("vm_account_id", "vm_project_id")
	said := map[string]string{}
	for key, value := range labels {
		assert.NotContains(t, value, "forged", "%s shows %s", s.name, key)
		form := identity.NormalForm(key)
		if form == identity.NormalForm(keyID) {
			cluster, _, _ = strings.Cut(value, "/")
		}
		if reserved.Has(key) || form == "region" || form == "tier" {
			assert.NotContains(t, said, form, "%s shows %s in two spellings", s.name, key)
			said[form] = value
		}
	}
	require.NotEmpty(t, cluster, "%s: %v", s.name, labels)
	want := map[string]string{}
	for key, value := range chainIdentity(cluster) {
		want[identity.NormalForm(key)] = value
	}
	assert.Equal(t, want, said, s.name)
	return cluster
}

func (s *store) checkSeries(t *testing.T) {
	type answer struct{ Data []map[string]string }
	var series answer
	s.query(t, "/api/v1/series", url.Values{"match[]": {`{__name__=~"e2e.*"}`}}, func(body []byte) bool {
		series = answer{}
		require.NoError(t, json.Unmarshal(body, &series))
		have := map[string]bool{}
		for _, labels := range series.Data {
			for _, name := range storeNames {
				if strings.HasPrefix(identity.NormalForm(labels["__name__"]), name) {
					have[name+" of "+labels["continuum_cluster_id"]+labels["continuum.cluster.id"]] = true
				}
			}
		}
		return len(have) >= len(storeNames)*len(chainClusters)
	})
	for _, labels := range series.Data {
		s.shown(t, labels)
	}
	t.Logf("%d series, such as %v", len(series.Data), series.Data[0])

	// What else the store made of the resources, such as target_info.
	s.query(t, "/api/v1/series", url.Values{"match[]": {`{__name__!=""}`}}, func(body []byte) bool {
		assert.NotContains(t, string(body), "forged")
		return true
	})
}

// checkLabelBelow shows what README.md of continuumidentity says of a data point
// with an attribute that is named like a label, while `labels_below` is `keep`.
func (s *store) checkLabelBelow(t *testing.T, region string) {
	t.Helper()
	s.query(t, "/api/v1/series", url.Values{"match[]": {`{__name__="below"}`}}, func(body []byte) bool {
		var series struct{ Data []map[string]string }
		require.NoError(t, json.Unmarshal(body, &series))
		for _, labels := range series.Data {
			assert.Equal(t, region, labels["region"], s.name)
		}
		return len(series.Data) == len(chainClusters)
	})
}

func (s *store) checkExemplars(t *testing.T) {
	type answer struct {
		Data []struct {
			SeriesLabels map[string]string
			Exemplars    []struct{ Labels map[string]string }
		}
	}
	var found answer
	now := time.Now()
	s.query(t, "/api/v1/query_exemplars", url.Values{
		"query": {`{__name__=~"e2e.*"}`}, "start": {fmt.Sprint(now.Add(-time.Hour).Unix())}, "end": {fmt.Sprint(now.Add(time.Hour).Unix())},
	}, func(body []byte) bool {
		found = answer{}
		require.NoError(t, json.Unmarshal(body, &found))
		return len(found.Data) >= len(chainClusters)
	})
	for _, of := range found.Data {
		for _, exemplar := range of.Exemplars {
			assert.Equal(t, map[string]string{keyID: of.SeriesLabels["e2e_id"]}, exemplar.Labels)
		}
	}
}

func (s *store) checkLogs(t *testing.T) {
	var records []map[string]string
	s.query(t, "/select/logsql/query", url.Values{"query": {"*"}}, func(body []byte) bool {
		records = nil
		for line := range bytes.Lines(body) {
			var record map[string]string
			require.NoError(t, json.Unmarshal(line, &record))
			records = append(records, record)
		}
		return len(records) >= perRequest*len(chainClusters)
	})
	count := map[string]int{}
	for _, record := range records {
		cluster := s.shown(t, record)
		count[cluster]++
		assert.Contains(t, record["_stream"], `continuum.cluster.id="`+cluster+`"`)
	}
	assert.Equal(t, map[string]int{"c1": perRequest, "c2": perRequest}, count)
	t.Logf("%d records, such as %v", len(records), records[0])
}
