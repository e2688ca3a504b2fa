// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package itemlimit

import (
	"context"

	"go.opentelemetry.io/collector/pdata/pmetric"
)

var metricSizer pmetric.ProtoMarshaler

func (l *itemLimit) metrics(ctx context.Context, md pmetric.Metrics) (pmetric.Metrics, error) {
	before := md.DataPointCount()
	md.ResourceMetrics().RemoveIf(l.resourceMetrics)
	return md, l.end(ctx, before-md.DataPointCount(), md.ResourceMetrics().Len())
}

// resourceMetrics reports whether nothing of a resource may stay. Further down, around
// is the size of a part and of what it stands in, until the items are taken off.
func (l *itemLimit) resourceMetrics(rm pmetric.ResourceMetrics) bool {
	around := metricSizer.ResourceMetricsSize(rm)
	if around <= l.max {
		return false
	}
	scopes := rm.ScopeMetrics()
	before := scopes.Len()
	sizes := make([]int, before)
	for i := range sizes {
		sizes[i] = metricSizer.ScopeMetricsSize(scopes.At(i))
		around -= framed(sizes[i])
	}
	scopes.RemoveIf(func(sm pmetric.ScopeMetrics) bool {
		size := sizes[0]
		sizes = sizes[1:]
		return l.scopeMetrics(sm, around+size)
	})
	return around > l.maxAround || before > 0 && scopes.Len() == 0
}

func (l *itemLimit) scopeMetrics(sm pmetric.ScopeMetrics, around int) bool {
	if around <= l.max {
		return false
	}
	metrics := sm.Metrics()
	before := metrics.Len()
	sizes := make([]int, before)
	for i := range sizes {
		sizes[i] = metricSizer.MetricSize(metrics.At(i))
		around -= framed(sizes[i])
	}
	metrics.RemoveIf(func(m pmetric.Metric) bool {
		size := sizes[0]
		sizes = sizes[1:]
		return l.metric(m, around+size)
	})
	return around > l.maxAround || before > 0 && metrics.Len() == 0
}

func (l *itemLimit) metric(m pmetric.Metric, around int) bool {
	if around <= l.max {
		return false
	}
	over := func(size int) bool {
		around -= framed(size)
		return size > l.max
	}
	before, left := 0, 0
	switch m.Type() {
	case pmetric.MetricTypeGauge:
		before, left = numberPoints(m.Gauge().DataPoints(), over)
	case pmetric.MetricTypeSum:
		before, left = numberPoints(m.Sum().DataPoints(), over)
	case pmetric.MetricTypeHistogram:
		points := m.Histogram().DataPoints()
		before = points.Len()
		points.RemoveIf(func(p pmetric.HistogramDataPoint) bool { return over(metricSizer.HistogramDataPointSize(p)) })
		left = points.Len()
	case pmetric.MetricTypeExponentialHistogram:
		points := m.ExponentialHistogram().DataPoints()
		before = points.Len()
		points.RemoveIf(func(p pmetric.ExponentialHistogramDataPoint) bool {
			return over(metricSizer.ExponentialHistogramDataPointSize(p))
		})
		left = points.Len()
	case pmetric.MetricTypeSummary:
		points := m.Summary().DataPoints()
		before = points.Len()
		points.RemoveIf(func(p pmetric.SummaryDataPoint) bool { return over(metricSizer.SummaryDataPointSize(p)) })
		left = points.Len()
	}
	return around > l.maxAround || before > 0 && left == 0
}

func numberPoints(points pmetric.NumberDataPointSlice, over func(int) bool) (before, left int) {
	before = points.Len()
	points.RemoveIf(func(p pmetric.NumberDataPoint) bool { return over(metricSizer.NumberDataPointSize(p)) })
	return before, points.Len()
}
