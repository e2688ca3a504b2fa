// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package continuumidentity

import (
	"context"

	"go.opentelemetry.io/collector/pdata/ptrace"
)

func (p *identityProcessor) traces(ctx context.Context, td ptrace.Traces) (ptrace.Traces, error) {
	ps, err := p.begin(ctx, td.SpanCount())
	if err != nil {
		return td, err
	}
	td.ResourceSpans().RemoveIf(func(rs ptrace.ResourceSpans) bool {
		if !ps.resource(rs.Resource().Attributes(), func() int { return spanCount(rs) }) {
			return true
		}
		if !ps.skipsBelow() {
			ps.scopeSpans(rs.ScopeSpans())
		}
		return false
	})
	return td, ps.end(ctx, td.SpanCount)
}

func (ps *pass) scopeSpans(scopes ptrace.ScopeSpansSlice) {
	for i := range scopes.Len() {
		ps.clean(scopes.At(i).Scope().Attributes(), levelScope)
		spans := scopes.At(i).Spans()
		for j := range spans.Len() {
			ps.span(spans.At(j))
		}
	}
}

func (ps *pass) span(span ptrace.Span) {
	ps.clean(span.Attributes(), levelSpan)
	events := span.Events()
	for i := range events.Len() {
		ps.clean(events.At(i).Attributes(), levelSpanEvent)
	}
	links := span.Links()
	for i := range links.Len() {
		ps.clean(links.At(i).Attributes(), levelSpanLink)
	}
}

func spanCount(rs ptrace.ResourceSpans) (n int) {
	for i := range rs.ScopeSpans().Len() {
		n += rs.ScopeSpans().At(i).Spans().Len()
	}
	return n
}
