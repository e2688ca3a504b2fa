// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certnameauth

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configauth"
	"go.opentelemetry.io/collector/config/confighttp"
	"go.opentelemetry.io/collector/config/configmiddleware"
	"go.opentelemetry.io/collector/config/confignet"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/ikhnos/continuum/components/extension/certnameauth/internal/metadata"
	"github.com/ikhnos/continuum/components/extension/certnameauth/internal/senders"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/testpki"
)

var id = component.NewID(metadata.Type)

// `auth` works on gRPC, alone and beside the middleware; a call counts once.
func TestAuthOnGRPC(t *testing.T) {
	ca := testpki.NewCA(t, operatorID)
	for name, withMiddleware := range map[string]bool{"auth alone": false, "auth and middleware": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, ca, staticConfig("c1"), options{receiver: func(cfg *otlpreceiver.Config) {
				server := cfg.Protocols.GRPC.Get()
				server.Auth = configoptional.Some(configauth.Config{AuthenticatorID: id})
				if !withMiddleware {
					server.Middlewares = nil
				}
			}})
			requireAccepted(t, r.sendGRPC(r.grpcClient(sender(t, ca, "c1"))))
			assert.Equal(t, "op-abc-export-c1", r.sink.last().Auth.GetAttribute("sender.name"))
			requireRefused(t, r.sendGRPC(r.grpcClient(sender(t, ca, "c2"))), "sender_unknown", codes.PermissionDenied)
			assert.Equal(t, map[string]int64{"accepted": 1, "sender_unknown": 1}, r.outcomes())
			line, ok := r.ext.keeper.registry.Of("op-abc-export-c1").Report()
			require.True(t, ok)
			assert.Equal(t, controlapi.SignalCounts{Traces: 1}, line.Accepted)
		})
	}
}

// on HTTP `auth` cannot see certificates, so it refuses, and says where to go.
func TestAuthOnHTTPRefuses(t *testing.T) {
	ca := testpki.NewCA(t, operatorID)
	r := newRig(t, ca, staticConfig("c1"), options{receiver: func(cfg *otlpreceiver.Config) {
		server := &cfg.Protocols.HTTP.Get().ServerConfig
		server.Auth = configoptional.Some(confighttp.AuthConfig{Config: configauth.Config{AuthenticatorID: id}})
		server.Middlewares = nil
	}})
	for _, h2 := range []bool{false, true} {
		a := r.sendHTTP(r.httpClient(sender(t, ca, "c1"), h2), contentProtobuf)
		assert.Equal(t, 401, a.httpStatus)
		// The reason is the first word of the Status message (contract, section 11).
		assert.True(t, strings.HasPrefix(a.message, "use_middlewares "), a.message)
		assert.Contains(t, a.message, "list it under middlewares")
	}
	assert.Zero(t, r.sink.SpanCount())
	assert.Equal(t, map[string]int64{"use_middlewares": 2}, r.outcomes())
}

// A receiver without client certificates lets nobody in, and says so.
func TestNoVerifiedCertificate(t *testing.T) {
	ca := testpki.NewCA(t, operatorID)
	for name, edit := range map[string]func(*otlpreceiver.Config){
		"client_ca_file forgotten": func(cfg *otlpreceiver.Config) {
			cfg.Protocols.GRPC.Get().TLS.Get().ClientCAFile = ""
			cfg.Protocols.HTTP.Get().ServerConfig.TLS.Get().ClientCAFile = ""
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, ca, staticConfig("c1"), options{receiver: edit})
			for _, w := range r.wires(sender(t, ca, "c1")) {
				requireRefused(t, w.send(), "certificate_not_verified", codes.Unavailable)
			}
			assert.Equal(t, map[string]int64{"certificate_not_verified": 3}, r.outcomes())
		})
	}
}

// The leaf alone counts, whatever other certificates the peer sends along.
func TestOtherCertificatesAreNotLookedAt(t *testing.T) {
	ca := testpki.NewCA(t, operatorID)
	r := newRig(t, ca, staticConfig("c1", "c2"), options{})
	own, other, unlisted := sender(t, ca, "c1"), sender(t, ca, "c2"), sender(t, ca, "c9")
	chain := func(leaf *testpki.Leaf, more ...*testpki.Leaf) *testpki.Leaf {
		bundle := *leaf
		bundle.TLS.Certificate = append([][]byte{}, leaf.TLS.Certificate...)
		for _, m := range more {
			bundle.TLS.Certificate = append(bundle.TLS.Certificate, m.Cert.Raw)
		}
		return &bundle
	}
	caLeaf := &testpki.Leaf{Cert: ca.Cert}
	for name, more := range map[string][]*testpki.Leaf{
		"other behind": {other}, "CA and other": {caLeaf, other}, "other and CA": {other, caLeaf}, "own twice": {own, own, other},
	} {
		t.Run(name, func(t *testing.T) {
			for _, w := range r.wires(chain(own, more...)) {
				requireAccepted(t, w.send())
				assert.Equal(t, "op-abc-export-c1", r.sink.last().Auth.GetAttribute("sender.name"))
			}
			for _, w := range r.wires(chain(unlisted, more...)) {
				requireRefused(t, w.send(), "sender_unknown", codes.PermissionDenied)
			}
		})
	}
	t.Run("another's certificate with the own key", func(t *testing.T) {
		forged := chain(other, own)
		forged.TLS.PrivateKey = own.Key
		for _, w := range r.wires(forged) {
			a := w.send()
			assert.NotEqual(t, codes.OK, a.code)
			assert.Empty(t, a.reason)
		}
	})
}

// What a certificate's names do, through real handshakes.
func TestNamesThroughTLS(t *testing.T) {
	ca := testpki.NewCA(t, operatorID)
	r := newRig(t, ca, staticConfig("c1", "c2"), options{})
	edit := func(f func(*x509.Certificate)) *testpki.Leaf { return sender(t, ca, "c1", f) }
	for _, tt := range []struct {
		name   string
		leaf   *testpki.Leaf
		reason string
	}{
		{"upper case", edit(func(c *x509.Certificate) { c.DNSNames = []string{"OP-ABC-Export-C1"} }), ""},
		{"no common name", edit(func(c *x509.Certificate) { c.Subject.CommonName = "" }), ""}, // case-23
		{"URI alone", edit(func(c *x509.Certificate) { c.Subject.CommonName, c.DNSNames = "", nil }), ""},
		{"common name alone", edit(func(c *x509.Certificate) { c.DNSNames, c.URIs = nil, nil }), "sender_unknown"},
		{"wildcard", edit(func(c *x509.Certificate) { c.DNSNames, c.URIs = []string{"*"}, nil }), "sender_unknown"},
		{"two senders", edit(func(c *x509.Certificate) { c.DNSNames = append(c.DNSNames, "op-abc-export-c2") }), "name_ambiguous"},
		{"two common names", edit(func(c *x509.Certificate) {
			name := pkix.AttributeTypeAndValue{Type: []int{2, 5, 4, 3}, Value: "op-abc-export-c2"}
			c.Subject.ExtraNames = append(c.Subject.ToRDNSequence()[0], name)
		}), "name_ambiguous"},
		{"name of c2, URI of c1", edit(func(c *x509.Certificate) { c.DNSNames = []string{"op-abc-export-c2"} }), "name_ambiguous"},
		{"both usages", edit(testpki.WithUsage(x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth)), "usage_wrong"},
		{"any usage", edit(testpki.WithUsage(x509.ExtKeyUsageAny)), "usage_wrong"},
		{"kind operator", ca.Sender(t, controlapi.KindOperator, "c1"), "identity_mismatch"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, w := range r.wires(tt.leaf) {
				if tt.reason == "" {
					requireAccepted(t, w.send())
					continue
				}
				requireRefused(t, w.send(), tt.reason, codes.PermissionDenied)
			}
		})
	}
}

// A session that is resumed carries the leaf of its first handshake, which is
// judged like any other.
func TestSessionResumption(t *testing.T) {
	ca := testpki.NewCA(t, operatorID)
	r := newRig(t, ca, staticConfig("c1"), options{})
	for name, version := range map[string]uint16{"TLS 1.2": tls.VersionTLS12, "TLS 1.3": tls.VersionTLS13} {
		for _, transport := range []string{"grpc", "http1", "http2"} {
			t.Run(name+" "+transport, func(t *testing.T) {
				leaf := sender(t, ca, "c1")
				cfg := r.clientTLS(leaf)
				cfg.ClientSessionCache, cfg.MaxVersion = tls.NewLRUClientSessionCache(4), version
				a, state := r.sendOnce(t, cfg, transport)
				requireAccepted(t, a)
				require.False(t, state.DidResume)
				a, state = r.sendOnce(t, cfg, transport)
				requireAccepted(t, a)
				require.True(t, state.DidResume)
				assert.Equal(t, senders.SerialText(leaf.Cert.SerialNumber), r.sink.last().Auth.GetAttribute("sender.serial"))
				r.ext.keeper.setCRL(revoking(t, ca, leaf))
				defer r.ext.keeper.setCRL(nil)
				a, state = r.sendOnce(t, cfg, transport)
				requireRefused(t, a, "certificate_revoked", codes.PermissionDenied)
				require.True(t, state.DidResume)
			})
		}
	}
}

// sendOnce sends over a connection of its own and tells of its handshake.
func (r *rig) sendOnce(t *testing.T, cfg *tls.Config, transport string) (answer, tls.ConnectionState) {
	if transport == "grpc" {
		conn, err := grpc.NewClient(r.grpcAddr, grpc.WithTransportCredentials(credentials.NewTLS(cfg)))
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
		var p peer.Peer
		_, err = ptraceotlp.NewGRPCClient(conn).Export(t.Context(), request(), grpc.Peer(&p))
		return grpcAnswer(err), p.AuthInfo.(credentials.TLSInfo).State
	}
	c := r.httpClient(nil, transport == "http2")
	defer c.CloseIdleConnections()
	c.Transport.(*http.Transport).TLSClientConfig = cfg.Clone()
	resp, err := c.Post("https://"+r.httpAddr+"/v1/traces", contentProtobuf, bytes.NewReader(encoded(t, contentProtobuf)))
	require.NoError(t, err)
	return r.readAnswer(resp, contentProtobuf), *resp.TLS
}

// Unix sockets are no way around.
func TestUnixSocket(t *testing.T) {
	ca := testpki.NewCA(t, operatorID)
	dir := t.TempDir()
	overGRPC, overHTTP := dir+"/grpc.sock", dir+"/http.sock"
	r := newRig(t, ca, staticConfig("c1"), options{receiver: func(cfg *otlpreceiver.Config) {
		cfg.Protocols.GRPC.Get().NetAddr = confignet.AddrConfig{Endpoint: overGRPC, Transport: confignet.TransportTypeUnix}
		cfg.Protocols.HTTP.Get().ServerConfig.NetAddr = confignet.AddrConfig{Endpoint: overHTTP, Transport: confignet.TransportTypeUnix}
	}})
	r.grpcAddr, r.httpAddr = "unix://"+overGRPC, "localhost"
	for holder, check := range map[string]func(answer){
		"c1": func(a answer) { requireAccepted(t, a) },
		"c9": func(a answer) { requireRefused(t, a, "sender_unknown", codes.PermissionDenied) },
	} {
		check(r.sendGRPC(r.grpcClient(sender(t, ca, holder))))
		for _, h2 := range []bool{false, true} {
			c := r.httpClient(sender(t, ca, holder), h2)
			c.Transport.(*http.Transport).DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", overHTTP)
			}
			check(r.sendHTTP(c, contentProtobuf))
		}
	}
}

func TestDependencies(t *testing.T) {
	ca := testpki.NewCA(t, operatorID)
	cfg := policyConfig(t, ca, newFakeServer(t, ca))
	other := component.MustNewID("headers_setter")
	cfg.Policy.Get().Server.Middlewares = []configmiddleware.Config{{ID: other}}
	r, err := newCertNameAuth(nopSettings(), cfg, time.Now)
	require.NoError(t, err)
	assert.Equal(t, []component.ID{other}, r.Dependencies()) // case-43
	require.NoError(t, r.Shutdown(context.Background()))
	static, err := newCertNameAuth(nopSettings(), staticConfig("c1"), time.Now)
	require.NoError(t, err)
	assert.Empty(t, static.Dependencies())
	require.NoError(t, static.Shutdown(context.Background()))
}
