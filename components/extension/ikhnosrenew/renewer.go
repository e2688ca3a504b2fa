// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ikhnosrenew

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/extension/extensioncapabilities"
	"go.uber.org/zap"

	"github.com/ikhnos/continuum/components/extension/ikhnosrenew/internal/metadata"
	"github.com/ikhnos/continuum/internal/certfile"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/controlclient"
	"github.com/ikhnos/continuum/internal/holder"
	"github.com/ikhnos/continuum/internal/runtimestate"
)

var (
	_ extension.Extension                   = (*renewer)(nil)
	_ extensioncapabilities.Dependent       = (*renewer)(nil)
	_ extensioncapabilities.PipelineWatcher = (*renewer)(nil)
)

// secretTimeout bounds the one look at a Secret before a start that may go on
// without it.
const secretTimeout = 10 * time.Second

// renewer is the extension. The host calls Start, Ready, NotReady and Shutdown
// one after another.
type renewer struct {
	cfg       *Config
	set       extension.Settings
	instance  string // service.instance.id
	telemetry *metadata.TelemetryBuilder
	reporter  *reporter

	// These are the real ones, but in tests.
	now       func() time.Time
	frozen    func(dir string) []string
	newStore  func(namespace, name string) (holder.Store, error)
	newServer func(ctx context.Context, host component.Host) (server, error)

	server  server // nil when every certificate is followed
	keepers []*keeper

	publishing sync.Mutex // held over publish, so that the last one wins

	stop    context.CancelFunc // nil before Ready
	running sync.WaitGroup
}

// server is what the extension needs of controlclient.Client.
type server interface {
	holder.Server
	ClockOffset() time.Duration
}

func newRenewer(cfg *Config, set extension.Settings) (*renewer, error) {
	telemetry, err := metadata.NewTelemetryBuilder(set.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	r := &renewer{
		cfg:       cfg,
		set:       set,
		telemetry: telemetry,
		reporter:  newReporter(),
		now:       time.Now,
		frozen:    certfile.Frozen,
		newStore:  holder.OpenSecretStore,
	}
	if id, ok := set.Resource.Attributes().Get("service.instance.id"); ok {
		r.instance = id.AsString()
	}
	r.newServer = r.connect
	return r, nil
}

func (r *renewer) connect(ctx context.Context, host component.Host) (server, error) {
	return r.cfg.Server.Get().NewClient(ctx, host, r.set.TelemetrySettings)
}

// Dependencies are the extensions that start before this one.
func (r *renewer) Dependencies() []component.ID { return r.cfg.StartAfter }

// Start returns when every certificate has a pair on disk, one that has ended
// included; it waits for missing ones for at most startup_timeout.
func (r *renewer) Start(ctx context.Context, host component.Host) error {
	if r.cfg.Server.HasValue() {
		client, err := r.newServer(ctx, host)
		if err != nil {
			return err
		}
		r.server = client
	}
	for _, label := range r.cfg.labels() {
		k, err := r.newKeeper(label, r.cfg.Certificates[label])
		if err != nil {
			return fmt.Errorf("certificate %q: %w", label, err)
		}
		r.keepers = append(r.keepers, k)
	}
	r.loadAll(ctx)
	if err := r.obtainMissing(ctx); err != nil {
		return err
	}
	for _, k := range r.keepers {
		k.begin()
	}
	r.publish()
	r.reporter.host = host
	return nil
}

// loadAll takes up what is on disk or, for want of that, in the Secrets.
func (r *renewer) loadAll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, secretTimeout)
	defer cancel()
	for _, k := range r.keepers {
		if err := k.holder.Load(ctx); err != nil {
			// With a Secret out of reach the server may still help, and with a
			// pair on disk nothing is missing.
			k.logger.Warn("stored certificate could not be read", zap.Error(err))
		}
	}
}

// obtainMissing gets the certificates of which there is none at all.
func (r *renewer) obtainMissing(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.StartupTimeout)
	defer cancel()
	faults := make([]error, len(r.keepers))
	var wg sync.WaitGroup
	for i, k := range r.keepers {
		if k.holder.Status().Present {
			continue
		}
		wg.Go(func() {
			if err := k.obtain(ctx); err != nil {
				faults[i] = fmt.Errorf("certificate %q: none within startup_timeout (%s), last answer: %w", k.label, r.cfg.StartupTimeout, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(faults...)
}

// Ready starts the renewals. Before it nothing may be swapped: a receiver that
// is being started reads certificate and key one after the other, and a mixture
// would be fatal to it.
func (r *renewer) Ready() error {
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	r.running.Go(func() { r.reporter.run(ctx) })
	for _, k := range r.keepers {
		r.running.Go(func() { k.holder.Keep(ctx, k.look) })
	}
	return nil
}

// NotReady does nothing: certificates are kept until Shutdown.
func (r *renewer) NotReady() error { return nil }

// Shutdown ends the renewals. A request under way is cut off; its key is kept.
func (r *renewer) Shutdown(ctx context.Context) error {
	if r.stop != nil {
		r.stop()
	}
	done := make(chan struct{})
	go func() {
		r.running.Wait()
		close(done)
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = fmt.Errorf("waiting for a renewal to end: %w", ctx.Err())
	}
	if r.server != nil {
		r.server.CloseIdleConnections()
	}
	runtimestate.Drop(r.instance, r.set.ID.String())
	r.telemetry.Shutdown()
	return err
}

// publish tells heartbeat and the status reporter how the certificates stand.
func (r *renewer) publish() {
	r.publishing.Lock()
	defer r.publishing.Unlock()
	certs := []controlapi.HeartbeatCertificate{}
	var faults []error
	for _, k := range r.keepers {
		status := k.holder.Status()
		if err := k.fault(status); err != nil {
			faults = append(faults, err)
		}
		if status.Present {
			certs = append(certs, controlapi.HeartbeatCertificate{
				Name: k.label, Serial: status.Serial, NotAfter: controlapi.Seconds(status.NotAfter), State: status.State,
			})
		}
	}
	runtimestate.SetCertificates(r.instance, r.set.ID.String(), certs)
	r.reporter.set(errors.Join(faults...))
}

// newKeeper makes the keeper of one certificate.
func (r *renewer) newKeeper(label string, cfg CertificateConfig) (*keeper, error) {
	set := holder.Settings{Directory: cfg.Directory, Now: r.now, Random: rand.Float64}
	if !cfg.follows() {
		set.Server = r.server
	}
	if secret := cfg.KubernetesSecret.Get(); secret != nil {
		store, err := r.newStore(secret.Namespace, secret.Name)
		if err != nil {
			return nil, err
		}
		set.Shared = store
	}
	if enrollment := cfg.Enrollment.Get(); enrollment != nil {
		set.Token = func() (string, error) {
			text, err := os.ReadFile(enrollment.TokenFile)
			return string(text), err
		}
	}
	return &keeper{
		label:     label,
		cfg:       cfg,
		frozen:    r.frozen,
		holder:    holder.New(set),
		server:    r.server,
		telemetry: r.telemetry,
		logger:    r.set.Logger.With(zap.String("certificate", label)),
		changed:   r.publish,
	}, nil
}

var _ server = (*controlclient.Client)(nil)
