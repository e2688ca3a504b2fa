// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certnameauth

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/ikhnos/continuum/components/extension/certnameauth/internal/senders"
)

// otherSender stands in metrics and logs for everyone whom the list does not
// name, so that unknown certificates add one series and no more.
const otherSender = "_other"

type transport string

const (
	transportGRPC transport = "grpc"
	transportHTTP transport = "http"
)

// counter adds to the metric of requests. The attributes of each series are made
// once.
type counter struct {
	requests metric.Int64Counter
	series   sync.Map // seriesKey → metric.MeasurementOption
}

type seriesKey struct {
	stats     *senders.Stats // nil: not on the list
	transport transport
	outcome   senders.Reason
}

func (c *counter) add(stats *senders.Stats, transport transport, outcome senders.Reason) {
	key := seriesKey{stats, transport, outcome}
	option, ok := c.series.Load(key)
	if !ok {
		option, _ = c.series.LoadOrStore(key, metric.WithAttributeSet(attribute.NewSet(
			attribute.String("sender", senderName(stats)),
			attribute.String("transport", string(transport)),
			attribute.String("outcome", outcome.String()),
		)))
	}
	c.requests.Add(context.Background(), 1, option.(metric.AddOption))
}

func senderName(stats *senders.Stats) string {
	if stats == nil {
		return otherSender
	}
	return stats.Name
}
