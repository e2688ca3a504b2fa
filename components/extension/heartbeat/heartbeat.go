// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"context"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/extension/extensioncapabilities"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"

	"github.com/ikhnos/continuum/components/extension/heartbeat/internal/metadata"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/runtimestate"
)

var (
	_ extension.Extension                   = (*heartbeat)(nil)
	_ extensioncapabilities.PipelineWatcher = (*heartbeat)(nil)
	_ componentstatus.Watcher               = (*heartbeat)(nil)
)

// client is what a beat needs of controlclient.Client.
type client interface {
	Heartbeat(ctx context.Context, secret string, hb *controlapi.Heartbeat) error
	CloseIdleConnections()
}

// heartbeat is the extension. The host calls Start, Ready, NotReady and Shutdown
// one after another; ComponentStatusChanged comes at any time.
type heartbeat struct {
	cfg       *Config
	set       extension.Settings
	instance  string
	telemetry *metadata.TelemetryBuilder
	health    health

	host      component.Host
	client    client
	startedAt time.Time

	// stopLoop ends the beats at an interval, abort the last beat as well.
	loop, life      context.Context
	stopLoop, abort context.CancelFunc
	farewell        chan *controlapi.Heartbeat // holds at most the last beat
	done            chan struct{}              // closed by run; nil until Ready
}

func newHeartbeat(cfg *Config, set extension.Settings) (*heartbeat, error) {
	telemetry, err := metadata.NewTelemetryBuilder(set.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	h := &heartbeat{
		cfg:       cfg,
		set:       set,
		telemetry: telemetry,
		farewell:  make(chan *controlapi.Heartbeat, 1),
	}
	if id, ok := set.Resource.Attributes().Get("service.instance.id"); ok {
		h.instance = id.AsString()
	}
	h.life, h.abort = context.WithCancel(context.Background())
	h.loop, h.stopLoop = context.WithCancel(h.life)
	return h, nil
}

// Start makes the client. It sends nothing: the collector is not up yet.
func (h *heartbeat) Start(ctx context.Context, host component.Host) error {
	c, err := h.cfg.Server.NewClient(ctx, host, h.set.TelemetrySettings)
	if err != nil {
		return err
	}
	h.host, h.client, h.startedAt = host, c, time.Now()
	return nil
}

// Ready begins the beats, the first one at once.
func (h *heartbeat) Ready() error {
	h.done = make(chan struct{})
	go h.run()
	return nil
}

// NotReady ends the beats with a last one that tells how things stood before the
// pipelines were stopped. It waits for nothing: Shutdown does.
func (h *heartbeat) NotReady() error {
	if h.done == nil {
		return nil
	}
	select {
	case h.farewell <- h.body():
	default:
	}
	h.stopLoop()
	return nil
}

// Shutdown waits for the last beat, which is bounded, and at most as long as ctx
// allows. It may be called without Start and more than once.
func (h *heartbeat) Shutdown(ctx context.Context) error {
	h.stopLoop()
	if h.done != nil {
		select {
		case <-h.done:
		case <-ctx.Done():
			h.abort()
			<-h.done
		}
	}
	h.abort()
	if h.client != nil {
		h.client.CloseIdleConnections()
	}
	h.telemetry.Shutdown()
	return nil
}

// ComponentStatusChanged is called by the service with its reporter's mutex held.
func (h *heartbeat) ComponentStatusChanged(source *componentstatus.InstanceID, event *componentstatus.Event) {
	h.health.observe(*source, event.Status(), time.Now())
}

// body is what a beat says now.
func (h *heartbeat) body() *controlapi.Heartbeat {
	certificates, policy := runtimestate.Snapshot(h.instance)
	return &controlapi.Heartbeat{
		Version:      h.set.BuildInfo.Version,
		Instance:     h.instance,
		StartedAt:    controlapi.Seconds(h.startedAt),
		Status:       h.health.status(time.Now()),
		Certificates: certificates,
		Policy:       policy,
	}
}

// count adds one beat with its outcome to the metrics.
func (h *heartbeat) count(o outcome) {
	ctx := context.Background()
	h.telemetry.ExtensionHeartbeatBeats.Add(ctx, 1, metric.WithAttributeSet(outcomeSets[o]))
	if o == accepted {
		h.telemetry.ExtensionHeartbeatLastSuccess.Record(ctx, time.Now().Unix())
	}
}

// fields of a log line; the secret is in none of them.
func fields(o outcome, err error) []zap.Field {
	return []zap.Field{zap.String("outcome", string(o)), zap.Error(err)}
}
