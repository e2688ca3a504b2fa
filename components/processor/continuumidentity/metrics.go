// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package continuumidentity

import (
	"context"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

func (p *identityProcessor) metrics(ctx context.Context, md pmetric.Metrics) (pmetric.Metrics, error) {
	ps, err := p.begin(ctx, md.DataPointCount())
	if err != nil {
		return md, err
	}
	md.ResourceMetrics().RemoveIf(func(rm pmetric.ResourceMetrics) bool {
		if !ps.resource(rm.Resource().Attributes(), func() int { return dataPointCount(rm) }) {
			return true
		}
		if !ps.skipsBelow() {
			ps.scopeMetrics(rm.ScopeMetrics())
		}
		return false
	})
	return md, ps.end(ctx, md.DataPointCount)
}

func (ps *pass) scopeMetrics(scopes pmetric.ScopeMetricsSlice) {
	for i := range scopes.Len() {
		ps.clean(scopes.At(i).Scope().Attributes(), levelScope)
		metrics := scopes.At(i).Metrics()
		for j := range metrics.Len() {
			ps.clean(metrics.At(j).Metadata(), levelMetric)
			ps.dataPoints(metrics.At(j))
		}
	}
}

func (ps *pass) dataPoints(m pmetric.Metric) {
	switch m.Type() {
	case pmetric.MetricTypeGauge:
		ps.numberPoints(m.Gauge().DataPoints())
	case pmetric.MetricTypeSum:
		ps.numberPoints(m.Sum().DataPoints())
	case pmetric.MetricTypeHistogram:
		points := m.Histogram().DataPoints()
		for i := range points.Len() {
			ps.point(points.At(i).Attributes(), points.At(i).Exemplars())
		}
	case pmetric.MetricTypeExponentialHistogram:
		points := m.ExponentialHistogram().DataPoints()
		for i := range points.Len() {
			ps.point(points.At(i).Attributes(), points.At(i).Exemplars())
		}
	case pmetric.MetricTypeSummary:
		points := m.Summary().DataPoints()
		for i := range points.Len() {
			ps.clean(points.At(i).Attributes(), levelDatapoint)
		}
	}
}

func (ps *pass) numberPoints(points pmetric.NumberDataPointSlice) {
	for i := range points.Len() {
		ps.point(points.At(i).Attributes(), points.At(i).Exemplars())
	}
}

func (ps *pass) point(attributes pcommon.Map, exemplars pmetric.ExemplarSlice) {
	ps.clean(attributes, levelDatapoint)
	for i := range exemplars.Len() {
		ps.clean(exemplars.At(i).FilteredAttributes(), levelExemplar)
	}
}

func dataPointCount(rm pmetric.ResourceMetrics) (n int) {
	for i := range rm.ScopeMetrics().Len() {
		metrics := rm.ScopeMetrics().At(i).Metrics()
		for j := range metrics.Len() {
			n += pointCount(metrics.At(j))
		}
	}
	return n
}

func pointCount(m pmetric.Metric) int {
	switch m.Type() {
	case pmetric.MetricTypeGauge:
		return m.Gauge().DataPoints().Len()
	case pmetric.MetricTypeSum:
		return m.Sum().DataPoints().Len()
	case pmetric.MetricTypeHistogram:
		return m.Histogram().DataPoints().Len()
	case pmetric.MetricTypeExponentialHistogram:
		return m.ExponentialHistogram().DataPoints().Len()
	case pmetric.MetricTypeSummary:
		return m.Summary().DataPoints().Len()
	}
	return 0
}
