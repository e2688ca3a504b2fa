// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"errors"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ikhnos/continuum/internal/version"
)

// metrics are what the server counts while it answers; what stands in the
// database is read when Prometheus asks, see stateCollector.
type metrics struct {
	refusals *prometheus.CounterVec
	issued   *prometheus.CounterVec
	confirm  prometheus.Histogram
	requests *prometheus.HistogramVec
}

func newMetrics(registry prometheus.Registerer, s *Server) (*metrics, error) {
	m := &metrics{
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ikhnos_refusals_total", Help: "Requests refused, by route and reason.",
		}, []string{"path", "reason"}),
		issued: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ikhnos_certificates_issued_total", Help: "Certificates asked for, by kind of request and result.",
		}, []string{"kind", "result"}),
		confirm: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "ikhnos_policy_confirm_seconds", Help: "Time from a revocation's commit to its confirmation by an operator instance.",
			Buckets: []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
		}),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "ikhnos_http_request_duration_seconds", Help: "Time to answer a request; long polls included.",
			Buckets: []float64{.001, .005, .025, .1, .5, 1, 5, 30, 60},
		}, []string{"method", "route", "code"}),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "ikhnos_build_info", Help: "Always 1; the label is the version.", ConstLabels: prometheus.Labels{"version": version.Version},
	})
	build.Set(1)
	var errs []error
	for _, c := range []prometheus.Collector{m.refusals, m.issued, m.confirm, m.requests, build, newStateCollector(s)} {
		errs = append(errs, registry.Register(c))
	}
	return m, errors.Join(errs...)
}

func (m *metrics) observe(method, route string, status int, took time.Duration) {
	if !knownMethods[method] {
		method = "other" // a client chooses it, so it must not make series
	}
	m.requests.WithLabelValues(method, route, strconv.Itoa(status)).Observe(took.Seconds())
}

var knownMethods = map[string]bool{"GET": true, "HEAD": true, "POST": true, "PUT": true, "PATCH": true, "DELETE": true, "OPTIONS": true}
