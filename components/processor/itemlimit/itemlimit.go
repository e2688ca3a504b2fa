// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package itemlimit

import (
	"context"
	"math/bits"
	"time"

	"go.opentelemetry.io/collector/client"
	"go.opentelemetry.io/collector/pipeline"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processorhelper"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/ikhnos/continuum/components/processor/itemlimit/internal/metadata"
	"github.com/ikhnos/continuum/internal/identity"
)

// otherSender stands in metrics for requests without an authenticated sender.
const otherSender = "_other"

// itemLimit works on one signal.
//
// In every signal it goes down from the resource and stops wherever a whole part
// fits, so that most requests are measured once. A resource, scope or metric that is
// too large without the items in it goes with all of them: none could be sent.
type itemLimit struct {
	signal    string
	max       int // bytes of an item
	maxAround int // bytes of resource, scope and metric together
	telemetry *metadata.TelemetryBuilder
	logger    *zap.Logger // one line a minute
}

func newItemLimit(set processor.Settings, cfg *Config, signal pipeline.Signal) (*itemLimit, error) {
	telemetry, err := metadata.NewTelemetryBuilder(set.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	return &itemLimit{
		signal:    signal.String(),
		max:       cfg.MaxItemBytes,
		maxAround: max(cfg.MaxItemBytes, defaultMaxItemBytes),
		telemetry: telemetry,
		logger: set.Logger.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
			return zapcore.NewSamplerWithOptions(core, time.Minute, 1, 0)
		})),
	}, nil
}

func (l *itemLimit) shutdown(context.Context) error {
	l.telemetry.Shutdown()
	return nil
}

// end counts and logs the items dropped from a request. Of a request of which
// nothing is left nothing is passed on, and the sender does not send it again.
func (l *itemLimit) end(ctx context.Context, dropped, resourcesLeft int) error {
	if dropped == 0 {
		return nil
	}
	sender := senderName(ctx)
	l.telemetry.ProcessorItemlimitDroppedItems.Add(ctx, int64(dropped), metric.WithAttributes(
		attribute.String("sender", sender), attribute.String("signal", l.signal)))
	l.logger.Warn("Dropped items larger than max_item_bytes", zap.String("sender", sender),
		zap.String("signal", l.signal), zap.Int("count", dropped), zap.Int("max_item_bytes", l.max))
	if resourcesLeft == 0 {
		return processorhelper.ErrSkipProcessingData
	}
	return nil
}

func senderName(ctx context.Context) string {
	if auth := client.FromContext(ctx).Auth; auth != nil {
		if name, ok := auth.GetAttribute(identity.AttrName).(string); ok && name != "" {
			return name
		}
	}
	return otherSender
}

// framed is the size of a message of n bytes as a field of another: one byte of
// tag, the length, the message.
func framed(n int) int { return 1 + (bits.Len64(uint64(n)|1)+6)/7 + n }
