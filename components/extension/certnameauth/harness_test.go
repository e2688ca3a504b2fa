// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certnameauth

import (
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/client"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/confignet"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/config/configtls"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/ikhnos/continuum/components/extension/certnameauth/internal/metadata"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/testpki"
)

const operatorID = "op-abc"

// clock is real time that a test can move.
type clock struct {
	mu     sync.Mutex
	offset time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.offset)
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset += d
}

// testHost offers the extension to the receiver and collects its status.
type testHost struct {
	component.Host
	extensions map[component.ID]component.Component

	mu     sync.Mutex
	events []*componentstatus.Event
}

func newTestHost() *testHost {
	return &testHost{Host: componenttest.NewNopHost(), extensions: map[component.ID]component.Component{}}
}

func (h *testHost) GetExtensions() map[component.ID]component.Component { return h.extensions }

func (h *testHost) Report(event *componentstatus.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, event)
}

// status is what was reported last, as text.
func (h *testHost) status() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.events) == 0 {
		return ""
	}
	last := h.events[len(h.events)-1]
	if last.Err() != nil {
		return last.Status().String() + " " + last.Err().Error()
	}
	return last.Status().String()
}

// rig is the extension in front of a real OTLP receiver on both protocols.
type rig struct {
	t     testing.TB
	ca    *testpki.CA
	clock *clock
	host  *testHost
	ext   *certNameAuth
	logs  *observer.ObservedLogs
	tel   *componenttest.Telemetry
	sink  *sink

	grpcAddr, httpAddr string
}

// sink keeps what arrived and who sent it, and may hold or refuse it.
type sink struct {
	consumertest.TracesSink
	mu    sync.Mutex
	infos []client.Info
	hook  func(context.Context) error
}

func (s *sink) ConsumeTraces(ctx context.Context, td ptrace.Traces) error {
	s.mu.Lock()
	s.infos = append(s.infos, client.FromContext(ctx))
	hook := s.hook
	s.mu.Unlock()
	if hook != nil {
		if err := hook(ctx); err != nil {
			return err
		}
	}
	return s.TracesSink.ConsumeTraces(ctx, td)
}

func (s *sink) setHook(hook func(context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = hook
}

func (s *sink) last() client.Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.infos[len(s.infos)-1]
}

// options of a rig.
type options struct {
	receiver func(*otlpreceiver.Config)
	noStart  bool
	started  func() // called between Start and Ready
}

func staticConfig(holders ...string) *Config {
	cfg := createDefaultConfig().(*Config)
	cfg.OperatorID = operatorID
	for _, holder := range holders {
		cfg.Senders = append(cfg.Senders, SenderConfig{
			Name: operatorID + "-export-" + holder, Kind: "cluster", OrgID: "default", ClusterID: holder,
			Labels: map[string]string{"tier": "gold"},
		})
	}
	return cfg
}

func newRig(t testing.TB, ca *testpki.CA, cfg *Config, opts options) *rig {
	t.Helper()
	if cfg.RequestTimeout == defaultRequestTimeout {
		cfg.RequestTimeout = 365 * 24 * time.Hour // no test that moves the clock or runs slowly ends a request by it
	}
	require.NoError(t, cfg.Validate())
	r := &rig{t: t, ca: ca, clock: &clock{}, host: newTestHost(), sink: new(sink)}
	core, logs := observer.New(zap.DebugLevel)
	r.logs = logs
	r.tel = componenttest.NewTelemetry()
	set := extension.Settings{ID: component.NewID(metadata.Type), TelemetrySettings: r.tel.NewTelemetrySettings(), BuildInfo: component.NewDefaultBuildInfo()}
	set.Logger = zap.New(core)
	var err error
	r.ext, err = newCertNameAuth(set, cfg, r.clock.now)
	require.NoError(t, err)
	r.host.extensions[set.ID] = r.ext
	require.NoError(t, r.ext.Start(context.Background(), r.host))
	if opts.started != nil {
		opts.started()
	}
	require.NoError(t, r.ext.Ready())
	t.Cleanup(func() {
		require.NoError(t, r.ext.NotReady())
		require.NoError(t, r.ext.Shutdown(context.Background()))
		require.NoError(t, r.tel.Shutdown(context.Background()))
	})
	if !opts.noStart {
		r.startReceiver(opts)
	}
	return r
}

func (r *rig) startReceiver(opts options) {
	t := r.t
	dir := t.TempDir()
	r.ca.Receiver(t).WriteDir(t, dir, r.ca)
	factory := otlpreceiver.NewFactory()
	cfg := factory.CreateDefaultConfig().(*otlpreceiver.Config)
	require.NoError(t, confmap.NewFromStringMap(map[string]any{"protocols": map[string]any{
		"grpc": map[string]any{"endpoint": "127.0.0.1:0", "middlewares": []any{map[string]any{"id": "certnameauth"}}},
		"http": map[string]any{"endpoint": "127.0.0.1:0", "middlewares": []any{map[string]any{"id": "certnameauth"}}, "include_metadata": true},
	}}).Unmarshal(cfg))
	tlsCfg := configtls.NewDefaultServerConfig()
	tlsCfg.CertFile, tlsCfg.KeyFile, tlsCfg.ClientCAFile = dir+"/tls.crt", dir+"/tls.key", dir+"/ca.crt"
	cfg.Protocols.GRPC.Get().TLS = configoptional.Some(tlsCfg)
	cfg.Protocols.HTTP.Get().ServerConfig.TLS = configoptional.Some(tlsCfg)
	r.grpcAddr, r.httpAddr = freeAddr(t), freeAddr(t)
	cfg.Protocols.GRPC.Get().NetAddr = confignet.AddrConfig{Endpoint: r.grpcAddr, Transport: confignet.TransportTypeTCP}
	cfg.Protocols.HTTP.Get().ServerConfig.NetAddr = confignet.AddrConfig{Endpoint: r.httpAddr, Transport: confignet.TransportTypeTCP}
	if opts.receiver != nil {
		opts.receiver(cfg)
	}
	rcv, err := factory.CreateTraces(context.Background(), receivertest.NewNopSettings(factory.Type()), cfg, consumer.Traces(r.sink))
	require.NoError(t, err)
	require.NoError(t, rcv.Start(context.Background(), r.host))
	t.Cleanup(func() {
		require.NoError(t, r.ext.NotReady())
		require.NoError(t, rcv.Shutdown(context.Background()))
	})
}

// freeAddr is a loopback address that was free, of those that no outgoing
// connection takes in the meantime.
func freeAddr(t testing.TB) string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 25000+rand.IntN(7000)))
		if err == nil {
			require.NoError(t, l.Close())
			return l.Addr().String()
		}
	}
	t.Fatal("no free port")
	return ""
}

func (r *rig) clientTLS(leaf *testpki.Leaf) *tls.Config {
	cfg := &tls.Config{RootCAs: r.ca.Pool(), ServerName: "localhost", MinVersion: tls.VersionTLS12}
	if leaf != nil {
		cfg.Certificates = []tls.Certificate{leaf.TLS}
	}
	return cfg
}

// grpcClient opens a connection of its own.
func (r *rig) grpcClient(leaf *testpki.Leaf) ptraceotlp.GRPCClient {
	conn, err := grpc.NewClient(r.grpcAddr, grpc.WithTransportCredentials(credentials.NewTLS(r.clientTLS(leaf))))
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = conn.Close() })
	return ptraceotlp.NewGRPCClient(conn)
}

func (r *rig) httpClient(leaf *testpki.Leaf, h2 bool) *http.Client {
	transport := &http.Transport{TLSClientConfig: r.clientTLS(leaf), ForceAttemptHTTP2: h2}
	if !h2 {
		transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	r.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: waitLong}
}

func oneSpan() ptrace.Traces {
	td := ptrace.NewTraces()
	td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty().SetName("s")
	return td
}

func request() ptraceotlp.ExportRequest { return ptraceotlp.NewExportRequestFromTraces(oneSpan()) }

func sender(t testing.TB, ca *testpki.CA, holder string, opts ...testpki.LeafOption) *testpki.Leaf {
	t.Helper()
	return ca.Sender(t, controlapi.KindCluster, holder, opts...)
}
