// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certnameauth

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/extension/extensionauth"
	"go.opentelemetry.io/collector/extension/extensioncapabilities"
	"go.opentelemetry.io/collector/extension/extensionmiddleware"
	"go.uber.org/zap"

	"github.com/ikhnos/continuum/components/extension/certnameauth/internal/metadata"
	"github.com/ikhnos/continuum/components/extension/certnameauth/internal/policystate"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/runtimestate"
)

// statusEvery is how often it is looked whether the policy has become stale.
const statusEvery = time.Second

// certNameAuth is the extension. Requests meet its gate; the rest keeps what the
// gate knows up to date.
type certNameAuth struct {
	cfg       *Config
	set       extension.Settings
	now       func() time.Time
	gate      *gate
	keeper    *keeper
	health    *health
	telemetry *metadata.TelemetryBuilder
	instance  string

	follow func() // begins to follow the server's policy, once; set by Start
	cancel context.CancelFunc
	tasks  sync.WaitGroup
}

var (
	_ extensionmiddleware.GRPCServer              = (*certNameAuth)(nil)
	_ extensionmiddleware.HTTPServer              = (*certNameAuth)(nil)
	_ extensionauth.Server                        = (*certNameAuth)(nil)
	_ extensioncapabilities.Dependent             = (*certNameAuth)(nil)
	_ extensioncapabilities.PipelineWatcher       = (*certNameAuth)(nil)
	_ extensioncapabilities.ConfigSnapshotWatcher = (*certNameAuth)(nil)
)

func newCertNameAuth(set extension.Settings, cfg *Config, now func() time.Time) (*certNameAuth, error) {
	telemetry, err := metadata.NewTelemetryBuilder(set.TelemetrySettings)
	if err != nil {
		return nil, fmt.Errorf("making the metrics: %w", err)
	}
	e := &certNameAuth{
		cfg: cfg, set: set, now: now, telemetry: telemetry,
		health:   &health{changed: newSignal()},
		instance: instanceOf(set.TelemetrySettings),
		follow:   func() {},
	}
	e.gate = &gate{
		holds:   holds{timeout: cfg.RequestTimeout, now: now},
		counter: &counter{requests: telemetry.ExtensionCertnameauthRequests},
		log:     newRefusalLog(set.Logger, now),
		refresh: newSignal(), report: newSignal(), rekeyed: newSignal(),
	}
	e.keeper = &keeper{gate: e.gate, now: now, match: cfg.match(), health: e.health, applied: e.applied}
	if policy := cfg.Policy.Get(); policy != nil {
		e.gate.maxStaleness = policy.MaxStaleness
		e.keeper.file = policystate.File(policy.CacheFile)
	}
	for i := range cfg.Senders {
		e.keeper.static = append(e.keeper.static, cfg.Senders[i].policySender(cfg.OperatorID))
	}
	e.keeper.compile()
	return e, nil
}

// instanceOf names this collector to the server, by a random name where the
// collector has none of its own.
func instanceOf(set component.TelemetrySettings) string {
	if id, ok := set.Resource.Attributes().Get("service.instance.id"); ok && id.Str() != "" {
		return id.Str()
	}
	return rand.Text()
}

// Start reads what is on disk and begins to keep it up to date. A policy that is
// not there yet does not stop it; a revocation list that cannot be read does. The
// server is not asked yet: extensions start in any order, and the certificate to
// prove this operator with may be another one's to fetch.
func (e *certNameAuth) Start(ctx context.Context, host component.Host) error {
	if err := e.observe(); err != nil {
		return fmt.Errorf("registering the metrics: %w", err)
	}
	crl := &crlWatch{cfg: e.cfg.CRL, health: e.health, logger: e.set.Logger, apply: e.keeper.setCRL}
	if e.cfg.CRL.File != "" {
		if err := crl.look(); err != nil {
			return err
		}
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	e.cancel = cancel
	if policy := e.cfg.Policy.Get(); policy != nil {
		if err := e.startPolicy(ctx, running, host, policy); err != nil {
			return err
		}
	}
	if e.cfg.CRL.File != "" {
		e.tasks.Go(func() { crl.run(running) })
	}
	e.tasks.Go(func() { e.gate.log.run(running) })
	e.tasks.Go(func() { e.watch(running, host) })
	return nil
}

// startPolicy prepares what [certNameAuth.follow] runs.
func (e *certNameAuth) startPolicy(ctx, running context.Context, host component.Host, policy *PolicyConfig) error {
	client, err := policy.Server.NewClient(ctx, host, e.set.TelemetrySettings)
	if err != nil {
		return err
	}
	p := &poller{
		server: client, cfg: e.cfg, policy: policy, keeper: e.keeper, health: e.health, logger: e.set.Logger,
		now: e.now, refresh: e.gate.refresh, fetches: e.telemetry.ExtensionCertnameauthPolicyFetches,
	}
	r := &reporter{
		server: client, policy: policy, keeper: e.keeper, logger: e.set.Logger, now: e.now, wake: e.gate.report,
		instance: e.instance, version: e.set.BuildInfo.Version, started: e.now(),
		told: map[string]controlapi.ReportSender{}, epochTold: -1,
	}
	p.restoreEarly()
	e.follow = sync.OnceFunc(func() {
		p.restoreEarly() // the CA may have come meanwhile
		e.tasks.Go(func() {
			p.run(running)
			client.CloseIdleConnections()
		})
		if policy.Report != reportOff {
			e.tasks.Go(func() {
				r.run(running)
				client.CloseIdleConnections()
			})
		}
	})
	return nil
}

// applied is called when another policy version came into force.
func (e *certNameAuth) applied(v controlapi.Version) {
	runtimestate.SetPolicy(e.instance, &v)
	e.gate.report.raise()
	e.health.changed.raise()
}

// watch keeps the status true and makes durable which replaced leaves were cut
// off.
func (e *certNameAuth) watch(ctx context.Context, host component.Host) {
	ticker := time.NewTicker(statusEvery)
	defer ticker.Stop()
	for {
		e.judge()
		e.health.report(host)
		select {
		case <-ctx.Done():
			return
		case <-e.gate.rekeyed:
			e.keeper.rememberCut()
		case <-e.health.changed:
		case <-ticker.C:
		}
	}
}

// judge sets the faults that follow from the list in force and the time.
func (e *certNameAuth) judge() {
	list := e.gate.list.Load()
	problem := func(is bool, err error) error {
		if is {
			return err
		}
		return nil
	}
	e.health.set(faultMissing, problem(!list.Loaded(), errMissing))
	e.health.set(faultRevoked, problem(list.DenyAll(), errOperatorRevoked))
	e.health.set(faultStale, problem(list.Loaded() && e.gate.staleAt(e.now()), errStale))
}

// Dependencies are the extensions that the client of the control server uses.
func (e *certNameAuth) Dependencies() []component.ID {
	var ids []component.ID
	if policy := e.cfg.Policy.Get(); policy != nil {
		for _, middleware := range policy.Server.Middlewares {
			ids = append(ids, middleware.ID)
		}
	}
	return ids
}

// Ready begins to follow the policy in a collector that shows no configuration.
func (e *certNameAuth) Ready() error {
	e.follow()
	return nil
}

// NotReady shortens requests that are held, so that stopping is quick.
func (e *certNameAuth) NotReady() error {
	e.gate.stopping()
	return nil
}

// Shutdown ends the goroutines. It may be called twice, and without Start.
func (e *certNameAuth) Shutdown(ctx context.Context) error {
	if e.cancel != nil {
		e.cancel()
	}
	stopped := make(chan struct{})
	go func() {
		e.tasks.Wait()
		close(stopped)
	}()
	select {
	case <-stopped:
	case <-ctx.Done():
		return ctx.Err()
	}
	if e.cfg.Policy.HasValue() {
		runtimestate.SetPolicy(e.instance, nil)
	}
	e.telemetry.Shutdown()
	e.set.Logger.Debug("Stopped", zap.String("instance", e.instance))
	return nil
}
