// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package load

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/extension/extensioncapabilities"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"

	"github.com/ikhnos/continuum/components/extension/certnameauth"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// Protocols of a site's receiver.
const (
	overGRPC = "grpc"
	overHTTP = "http"
)

var protocols = []string{overGRPC, overHTTP}

// site is one operator as a collector runs it: certnameauth, which follows its
// policy, in front of an OTLP receiver for one protocol; and its sender.
type site struct {
	number                int
	id, protocol, address string

	telemetry *componenttest.Telemetry
	extension extension.Extension
	receiver  receiver.Traces
	sender    *sender

	// What came through. One sender sends one request after the other, so only
	// one goroutine at a time writes, and its answer is what makes a read safe.
	accepted     int64
	before, last time.Time // the last two
}

var _ consumer.Traces = (*site)(nil)

// Capabilities of a consumer that changes nothing.
func (*site) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

// ConsumeTraces notes a request that was accepted.
func (s *site) ConsumeTraces(context.Context, ptrace.Traces) error {
	s.accepted++
	s.before, s.last = s.last, time.Now()
	return nil
}

// host offers the extension to the receiver.
type host map[component.ID]component.Component

// GetExtensions returns it.
func (h host) GetExtensions() map[component.ID]component.Component { return h }

// newSite makes an operator and connects a cluster to it, starts both ends and
// returns when the first request was accepted. It returns the site beside an error
// when something of it runs.
func (f *fleet) newSite(ctx context.Context, number int, receiver, client keyRequest) (*site, error) {
	id := operatorName(number)
	if err := f.putOperator(ctx, id, operators.SwitchOff); err != nil {
		return nil, err
	}
	if _, err := f.api.ConnectSender(ctx, id, cutOneByOne, ""); err != nil {
		return nil, err
	}
	dir := filepath.Join(f.dir, id)
	own, err := f.certificate(ctx, id, "", receiver)
	if err == nil {
		err = writePair(dir, own, receiver)
	}
	if err != nil {
		return nil, err
	}
	theirs, err := f.certificate(ctx, id, cutOneByOne, client)
	if err != nil {
		return nil, err
	}
	s := &site{number: number, id: id, protocol: protocols[number%len(protocols)], telemetry: componenttest.NewTelemetry()}
	if err := s.start(ctx, f.server, dir); err != nil {
		return s, fmt.Errorf("starting the receiver of %s: %w", id, err)
	}
	pair, err := tls.X509KeyPair([]byte(theirs.Certificate), keyPEM(client))
	if err != nil {
		return s, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(own.CA))
	s.sender, err = newSender(s, &tls.Config{RootCAs: roots, ServerName: id, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13})
	if err != nil {
		return s, err
	}
	// Until the first policy has come, requests are refused retryably.
	return s, await(ctx, f.Process, func(ctx context.Context) error {
		refusal, err := s.sender.send(ctx)
		if err == nil && refusal != "" {
			err = fmt.Errorf("the first request was refused: %s", refusal)
		}
		return err
	})
}

// certificate mints a token and spends it; sender is empty for the receiver's.
func (f *fleet) certificate(ctx context.Context, operatorID, sender string, r keyRequest) (*controlapi.Certificate, error) {
	role := controlapi.RoleReceiver
	if sender != "" {
		role = controlapi.RoleSender
	}
	token, err := f.api.CreateToken(ctx, operatorID, role, sender, time.Hour)
	if err != nil {
		return nil, err
	}
	client, closeIdle, err := f.client()
	if err != nil {
		return nil, err
	}
	defer closeIdle()
	return client.Enroll(ctx, token.Token, r.csr)
}

func keyPEM(r keyRequest) []byte {
	der, err := x509.MarshalPKCS8PrivateKey(r.key)
	if err != nil {
		return nil // never for a key that was just made
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func writePair(dir string, c *controlapi.Certificate, r keyRequest) error {
	return errors.Join(
		os.Mkdir(dir, 0o700),
		os.WriteFile(filepath.Join(dir, "tls.crt"), []byte(c.Certificate), 0o600),
		os.WriteFile(filepath.Join(dir, "tls.key"), keyPEM(r), 0o600),
		os.WriteFile(filepath.Join(dir, "ca.crt"), []byte(c.CA), 0o600),
	)
}

// ownAddress is free on a loopback address of the site's own, so that no
// connection of the many here takes its port before the receiver does.
func ownAddress(number int) (string, error) {
	listener, err := net.Listen("tcp", fmt.Sprintf("127.1.%d.%d:0", number/250, 1+number%250))
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// start starts the extension and the receiver with the certificate in dir.
func (s *site) start(ctx context.Context, server *server, dir string) error {
	var err error
	if s.address, err = ownAddress(s.number); err != nil {
		return err
	}
	files := map[string]any{"cert_file": dir + "/tls.crt", "key_file": dir + "/tls.key"}
	factory := certnameauth.NewFactory()
	cfg := factory.CreateDefaultConfig()
	if err := unmarshal(cfg, map[string]any{
		"operator_id": s.id,
		"policy": map[string]any{
			"server":     map[string]any{"endpoint": server.url, "ca_pins": []any{server.pin}},
			"proof":      with(files, "ca_file", dir+"/ca.crt"),
			"cache_file": dir + "/policy.jws",
		},
	}); err != nil {
		return err
	}
	id := component.NewID(factory.Type())
	s.extension, err = factory.Create(ctx, extension.Settings{ID: id, TelemetrySettings: s.telemetry.NewTelemetrySettings()}, cfg)
	if err != nil {
		return err
	}
	running := host{id: s.extension}
	if err := s.extension.Start(ctx, running); err != nil {
		return err
	}
	if err := s.extension.(extensioncapabilities.PipelineWatcher).Ready(); err != nil {
		return err
	}
	return s.startReceiver(ctx, running, id, with(files, "client_ca_file", dir+"/ca.crt"))
}

func (s *site) startReceiver(ctx context.Context, running host, auth component.ID, tls map[string]any) error {
	factory := otlpreceiver.NewFactory()
	cfg := factory.CreateDefaultConfig()
	if err := unmarshal(cfg, map[string]any{"protocols": map[string]any{s.protocol: map[string]any{
		"endpoint": s.address, "tls": tls, "middlewares": []any{map[string]any{"id": auth.String()}},
	}}}); err != nil {
		return err
	}
	set := receiver.Settings{ID: component.NewID(factory.Type()), TelemetrySettings: componenttest.NewNopTelemetrySettings()}
	var err error
	if s.receiver, err = factory.CreateTraces(ctx, set, cfg, s); err != nil {
		return err
	}
	return s.receiver.Start(ctx, running)
}

func unmarshal(cfg component.Config, text map[string]any) error {
	return confmap.NewFromStringMap(text).Unmarshal(cfg)
}

// with is a copy of a map that has one more entry.
func with(m map[string]any, key string, value any) map[string]any {
	more := map[string]any{key: value}
	for k, v := range m {
		more[k] = v
	}
	return more
}

// stopSites ends everything that runs.
func stopSites(sites []*site) {
	_ = parallel(context.Background(), setupWorkers, len(sites), func(ctx context.Context, _, i int) error {
		s := sites[i]
		if s.sender != nil {
			s.sender.close()
		}
		if watcher, ok := s.extension.(extensioncapabilities.PipelineWatcher); ok {
			_ = watcher.NotReady()
		}
		for _, c := range []component.Component{s.receiver, s.extension} {
			if c != nil {
				_ = c.Shutdown(ctx)
			}
		}
		return s.telemetry.Shutdown(ctx)
	})
}
