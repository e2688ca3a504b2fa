// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package itemlimit

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// BenchmarkTraces measures 1,000 spans of 40 attributes in one resource, which is
// more than the limit, so that every span is looked at.
func BenchmarkTraces(b *testing.B) {
	p, err := NewFactory().CreateTraces(b.Context(), nop(), createDefaultConfig(), consumertest.NewNop())
	require.NoError(b, err)
	td := ptrace.NewTraces()
	spans := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans()
	for range 1000 {
		span := spans.AppendEmpty()
		for a := range 40 {
			span.Attributes().PutStr(fmt.Sprint("some.attribute.", a), "value")
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := p.ConsumeTraces(b.Context(), td); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/span")
}
