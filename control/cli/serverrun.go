// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"github.com/ikhnos/continuum/control/api"
	"github.com/ikhnos/continuum/control/audit"
	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/liveness"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/control/pki"
	"github.com/ikhnos/continuum/control/policy"
	"github.com/ikhnos/continuum/control/web"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/version"
)

const (
	// headerTimeout is how long a client may take to send its headers, and
	// requestTimeout its whole request (contract, section 4). A long poll is
	// read at once and may then wait.
	headerTimeout  = 10 * time.Second
	requestTimeout = 10 * time.Second
	// idleTimeout ends a kept connection that nobody uses.
	idleTimeout = 2 * time.Minute
	// stopTimeout is how long open requests may take when the server stops.
	stopTimeout = 10 * time.Second
	// gcHeadroom is counted by the garbage collector as live, so it lets at least as
	// much garbage be before it runs again. Without it a small server under load
	// collects dozens of times a second.
	gcHeadroom = 32 << 20
	// sweepEvery is how often is done what follows from the clock alone.
	sweepEvery = time.Minute
)

// runningServer is the whole program between its start and its end.
type runningServer struct {
	cfg   *serverConfig
	log   *slog.Logger
	store *ledger.Store
	ops   *operators.Service
	hub   *policy.Hub
	api   *api.Server
	tls   *serverTLS
	pin   string

	url, adminURL, metricsURL string // where it listens

	headroom []byte // never touched, so it costs addresses and no memory; see gcHeadroom

	group  *errgroup.Group
	close  []func() error // what to close at the end, last first
	traces func(http.Handler) http.Handler
}

// startServer starts everything and returns once the server answers. It stops
// when ctx ends; wait returns when it has stopped.
func startServer(ctx context.Context, cfg *serverConfig, log *slog.Logger, now func() time.Time) (_ *runningServer, err error) {
	s := &runningServer{cfg: cfg, log: log, headroom: make([]byte, gcHeadroom)}
	defer func() {
		if err != nil {
			_ = s.closeAll() // the first error says more
		}
	}()
	sink, closeLog, err := openAuditLog(cfg.auditLog, os.Stdout)
	if err != nil {
		return nil, err
	}
	s.close = append(s.close, closeLog)
	s.store, err = ledger.Open(ctx, ledger.Options{DataDir: cfg.dataDir, DatabaseURL: cfg.databaseURL, Now: now, Logger: log, AuditSink: sink})
	if err != nil {
		return nil, storeError(err)
	}
	s.close = append(s.close, s.store.Close)
	registry := prometheus.NewRegistry()
	if err := s.assemble(ctx, registry, now); err != nil {
		return nil, err
	}
	if s.traces, err = s.startTraces(ctx); err != nil {
		return nil, err
	}
	return s, s.listen(ctx, registry)
}

// assemble opens the keys and puts the parts together.
func (s *runningServer) assemble(ctx context.Context, registry *prometheus.Registry, now func() time.Time) error {
	k, err := openKeys(ctx, s.store, s.cfg.passphrase, pki.DefaultSealCost)
	if err != nil {
		return err
	}
	if !k.sealer.Sealed() {
		s.log.WarnContext(ctx, "private keys are stored without a passphrase: anyone who reads the database can sign; give --passphrase-file")
	}
	keyring := pki.NewKeyring(k.sealer)
	s.hub = policy.NewHub(s.store, keyring, s.log)
	s.ops = operators.New(operators.Config{Store: s.store, CAs: operators.SealedCAs{Sealer: k.sealer}, LastWords: s.hub, Now: now})
	file, err := bootstrap(ctx, s.ops, s.store, s.cfg.dataDir, s.cfg.adminToken)
	if err != nil {
		return err
	}
	if file != "" {
		s.log.InfoContext(ctx, "first start: the admin token is in a file", slog.String("file", file))
	}
	issuer, err := pki.NewIssuer(api.NewRecorder(s.store, s.cfg.leafLifetime), keyring, s.cfg.receiverLocalhost)
	if err != nil {
		return err
	}
	if s.tls, err = newServerTLS(s.cfg, k.serverCA, now, s.log); err != nil {
		return err
	}
	if s.pin, err = s.tls.pin(); err != nil {
		return err
	}
	if err := s.registerOwn(registry); err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	public := ""
	if s.cfg.publicURL != nil {
		public = s.cfg.publicURL.String()
	}
	tracker := liveness.New(s.store, s.ops, func() liveness.ServerFacts { return s.facts(k.sealer.Sealed()) })
	page := web.Handler(web.Config{
		Store: s.store, Operators: s.ops, Liveness: tracker, Log: s.log,
		// The page is served behind the API, which is made with it.
		Caller: func(r *http.Request) (string, string) { return s.api.Caller(r) },
		Failed: func(r *http.Request) time.Duration { return s.api.Failed(r) },
	})
	s.api, err = api.New(api.Config{
		Store: s.store, Operators: s.ops, Issuer: issuer, Policy: s.hub, Liveness: tracker,
		Web: page, Session: web.Session(s.ops),
		Registry: registry, Log: s.log, Now: now, TrustedProxies: s.cfg.trustedProxies,
		Split: s.cfg.adminListen != "", KeysSealed: k.sealer.Sealed(), PublicURL: public, CAPin: s.pin, ChartRegistry: s.cfg.chartRegistry,
	})
	return err
}

// facts is what the summary tells of this process.
func (s *runningServer) facts(sealed bool) liveness.ServerFacts {
	ends := s.tls.notAfter().UTC()
	return liveness.ServerFacts{Version: version.Version, KeysSealed: sealed, CertificateEnds: &ends}
}

// registerOwn registers the metrics of the process and of its own certificate.
func (s *runningServer) registerOwn(registry *prometheus.Registry) error {
	ends := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "ikhnos_server_certificate_not_after_timestamp_seconds", Help: "Unix time of the end of the server's own certificate.",
	}, func() float64 { return float64(s.tls.notAfter().Unix()) })
	return errors.Join(registry.Register(ends), registry.Register(collectors.NewGoCollector()),
		registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})))
}

// served is one listener with the server behind it.
type served struct {
	listener net.Listener
	server   *http.Server
	secure   bool
}

// listen opens all listeners before any of them serves, then starts everything
// that runs.
func (s *runningServer) listen(ctx context.Context, registry *prometheus.Registry) error {
	all, err := s.open(ctx, registry)
	if err != nil {
		return err
	}
	if err := s.record(ctx, audit.ServerStarted); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	s.group = group
	for _, one := range all {
		group.Go(func() error {
			if one.secure {
				return ignoreClosed(one.server.ServeTLS(one.listener, "", ""))
			}
			return ignoreClosed(one.server.Serve(one.listener))
		})
		group.Go(func() error { return s.stopServing(ctx, one.server) })
	}
	group.Go(func() error { return s.hub.Run(ctx) })
	group.Go(func() error { return s.sweep(ctx) })
	s.log.InfoContext(ctx, "pin "+s.pin)
	s.log.InfoContext(ctx, "control server is ready", slog.String("url", s.url), slog.String("admin_url", s.adminURL), slog.String("metrics_url", s.metricsURL))
	return nil
}

// open opens the listeners that the flags ask for.
func (s *runningServer) open(ctx context.Context, registry *prometheus.Registry) (all []served, err error) {
	add := func(flag, address, scheme string, handler http.Handler) (string, error) {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return "", listenError(flag, address, err)
		}
		s.close = append(s.close, func() error { return ignoreClosed(listener.Close()) })
		all = append(all, served{listener, s.httpServer(handler), scheme == "https"})
		return scheme + "://" + listener.Addr().String(), nil
	}
	if s.url, err = add("listen", s.cfg.listen, "https", s.traces(s.api.Machine)); err != nil {
		return nil, err
	}
	s.adminURL = s.url
	if s.cfg.adminListen != "" {
		if s.adminURL, err = add("admin-listen", s.cfg.adminListen, "https", s.traces(s.api.Admin)); err != nil {
			return nil, err
		}
	}
	if s.cfg.metricsListen == "" {
		return all, nil
	}
	s.metricsURL, err = add("metrics-listen", s.cfg.metricsListen, "http", metricsHandler(registry))
	if err != nil && !s.cfg.metricsWanted { // nobody asked for this port, so it must not keep the server from starting
		s.log.WarnContext(ctx, "metrics are off: the default address is in use; choose one with --metrics-listen", slog.String("address", s.cfg.metricsListen))
		return all, nil
	}
	return all, err
}

func (s *runningServer) httpServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           limitHeaders(handler),
		TLSConfig:         s.tls.config(),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       requestTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    controlapi.MaxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}

// stopServing answers those who wait, then lets open requests end.
func (s *runningServer) stopServing(ctx context.Context, server *http.Server) error {
	<-ctx.Done()
	s.hub.Stop()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return errors.Join(server.Close(), fmt.Errorf("stopping: open requests were cut off: %w", err))
	}
	return nil
}

func (s *runningServer) sweep(ctx context.Context) error {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		if err := s.ops.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "the regular sweep failed", slog.Any("error", err))
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// wait returns when the server has stopped and everything is closed.
func (s *runningServer) wait() error {
	err := s.group.Wait()
	stopped := s.record(context.Background(), audit.ServerStopped)
	return errors.Join(err, stopped, s.closeAll())
}

func (s *runningServer) closeAll() error {
	var errs []error
	for i := len(s.close) - 1; i >= 0; i-- {
		errs = append(errs, s.close[i]())
	}
	s.close = nil
	return errors.Join(errs...)
}

func (s *runningServer) record(ctx context.Context, event string) error {
	return s.store.Update(ctx, func(tx *ledger.Tx) error {
		return tx.Audit(audit.Entry{Actor: audit.ActorServer, Event: event, Object: audit.ActorServer})
	})
}

func metricsHandler(registry *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return mux
}

func listenError(flag, address string, err error) error {
	e := &explained{what: "cannot listen on " + address, why: err.Error(), do: "choose another address with --" + flag, err: err}
	if errors.Is(err, syscall.EADDRINUSE) {
		e.why, e.do = "another program has this port", "stop it, or choose another address with --"+flag
	}
	return e
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func pinOfChain(chain [][]byte) (string, error) {
	if len(chain) == 0 {
		return "", errors.New("the server's certificate file is empty")
	}
	last, err := x509.ParseCertificate(chain[len(chain)-1])
	if err != nil {
		return "", fmt.Errorf("parsing the server's certificate: %w", err)
	}
	return pki.Pin(last), nil
}
