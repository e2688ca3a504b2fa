// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package itemlimit

import (
	"context"

	"go.opentelemetry.io/collector/pdata/ptrace"
)

var traceSizer ptrace.ProtoMarshaler

func (l *itemLimit) traces(ctx context.Context, td ptrace.Traces) (ptrace.Traces, error) {
	before := td.SpanCount()
	td.ResourceSpans().RemoveIf(l.resourceSpans)
	return td, l.end(ctx, before-td.SpanCount(), td.ResourceSpans().Len())
}

// resourceSpans reports whether nothing of a resource may stay. Further down, around
// is the size of a part and of what it stands in, until the items are taken off.
func (l *itemLimit) resourceSpans(rs ptrace.ResourceSpans) bool {
	around := traceSizer.ResourceSpansSize(rs)
	if around <= l.max {
		return false
	}
	scopes := rs.ScopeSpans()
	before := scopes.Len()
	sizes := make([]int, before)
	for i := range sizes {
		sizes[i] = traceSizer.ScopeSpansSize(scopes.At(i))
		around -= framed(sizes[i])
	}
	scopes.RemoveIf(func(ss ptrace.ScopeSpans) bool {
		size := sizes[0]
		sizes = sizes[1:]
		return l.scopeSpans(ss, around+size)
	})
	return around > l.maxAround || before > 0 && scopes.Len() == 0
}

func (l *itemLimit) scopeSpans(ss ptrace.ScopeSpans, around int) bool {
	if around <= l.max {
		return false
	}
	before := ss.Spans().Len()
	ss.Spans().RemoveIf(func(span ptrace.Span) bool {
		size := traceSizer.SpanSize(span)
		around -= framed(size)
		return size > l.max
	})
	return around > l.maxAround || before > 0 && ss.Spans().Len() == 0
}
