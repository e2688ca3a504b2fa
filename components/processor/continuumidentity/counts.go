// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package continuumidentity

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/ikhnos/continuum/components/processor/continuumidentity/internal/metadata"
)

// level says where attributes stand. It indexes counts.removed.
type level int

const (
	levelResource level = iota
	levelScope
	levelSpan
	levelSpanEvent
	levelSpanLink
	levelLogRecord
	levelLogBody
	levelMetric
	levelDatapoint
	levelExemplar
	levelProfile
	numLevels
)

var (
	levelNames  = [numLevels]string{"resource", "scope", "span", "span_event", "span_link", "log_record", "log_body", "metric", "datapoint", "exemplar", "profile"}
	keyNames    = [numClaimKeys]string{"org_id", "cluster_id", "operator_id"}
	actionNames = [numActions]string{actionDropped: "dropped", actionOverwritten: "overwritten", actionRemoved: "removed"}
)

// counts are what happened in one request. They become metrics once, at its end.
type counts struct {
	removed   [numLevels]int64
	conflicts [numClaimKeys][numActions]int64
	refused   [numReasons]int64
}

// add adds the counts to the metrics. What did not happen makes no series.
func (c *counts) add(ctx context.Context, tb *metadata.TelemetryBuilder, sender, signal string) {
	name := attribute.String("sender", sender)
	for at, n := range c.removed {
		if n > 0 {
			tb.ProcessorContinuumidentityRemovedAttributes.Add(ctx, n,
				metric.WithAttributes(name, attribute.String("level", levelNames[at])))
		}
	}
	for key := range c.conflicts {
		for done, n := range c.conflicts[key] {
			if n > 0 {
				tb.ProcessorContinuumidentityConflicts.Add(ctx, n, metric.WithAttributes(name,
					attribute.String("signal", signal), attribute.String("key", keyNames[key]), attribute.String("action", actionNames[done])))
			}
		}
	}
	for why, n := range c.refused {
		if n > 0 {
			tb.ProcessorContinuumidentityRefusedItems.Add(ctx, n, metric.WithAttributes(name,
				attribute.String("signal", signal), attribute.String("reason", reasonNames[why])))
		}
	}
}
