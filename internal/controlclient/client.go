// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package controlclient

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configmiddleware"
	"go.opentelemetry.io/collector/extension/extensionmiddleware"
)

// Client calls one control server. It is safe for concurrent use.
type Client struct {
	http    *http.Client
	base    *url.URL
	timeout time.Duration
	now     func() time.Time
	idle    func() // closes connections that no call uses

	correction atomic.Int64 // nanoseconds added to our time in proofs, learnt from clock_skew
	offset     atomic.Int64 // nanoseconds, the server's time minus ours as last seen
}

// Option changes a Client that [Config.NewClient] makes.
type Option func(*Client)

// WithClock replaces the clock, for tests.
func WithClock(now func() time.Time) Option { return func(c *Client) { c.now = now } }

// New returns a client for programs that are no collectors. The timeout of
// httpClient bounds each call (30 s when it has none); a long poll may take its
// wait on top. baseURL may start with http:// only in tests: tokens travel in
// clear then.
func New(httpClient *http.Client, baseURL string, now func() time.Time) (*Client, error) {
	base, err := parseBase(baseURL, true)
	if err != nil {
		return nil, err
	}
	return newClient(httpClient, base, now), nil
}

func newClient(httpClient *http.Client, base *url.URL, now func() time.Time) *Client {
	own := *httpClient
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	timeout := own.Timeout
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	own.Timeout = 0 // each call brings its deadline
	return &Client{http: &own, base: base, timeout: timeout, now: now, idle: httpClient.CloseIdleConnections}
}

// NewClient builds the client of a validated block with the middlewares, proxy
// and telemetry of the collector; ca_pins go in at the transport itself.
func (c *Config) NewClient(ctx context.Context, host component.Host, set component.TelemetrySettings, opts ...Option) (*Client, error) {
	base, err := parseBase(c.Endpoint, c.PlainHTTP)
	if err != nil {
		return nil, err
	}
	pins, err := parsePins(c.CAPins)
	if err != nil {
		return nil, err
	}
	serverName := c.TLS.ServerName
	if serverName == "" {
		serverName = base.Hostname()
	}
	door := &transportDoor{pins: pins, serverName: serverName}
	extensions := map[component.ID]component.Component{}
	if host != nil {
		maps.Copy(extensions, host.GetExtensions())
	}
	extensions[doorID] = door
	cfg := c.ClientConfig
	cfg.Middlewares = slices.Concat(cfg.Middlewares, []configmiddleware.Config{{ID: doorID}})
	httpClient, err := cfg.ToClient(ctx, extensions, set)
	if err != nil {
		return nil, fmt.Errorf("making the client of the control server: %w", err)
	}
	client := newClient(httpClient, base, time.Now)
	client.idle = door.transport.CloseIdleConnections
	for _, opt := range opts {
		opt(client)
	}
	return client, nil
}

// CloseIdleConnections makes the next call open a new connection. Callers use
// it after a renewal.
func (c *Client) CloseIdleConnections() { c.idle() }

// ClockOffset is the server's time minus ours, in whole seconds, as the last
// answer showed it; 0 before the first one.
func (c *Client) ClockOffset() time.Duration { return time.Duration(c.offset.Load()) }

// doorID names the innermost client middleware, the one place where confighttp
// lets us at its transport. No configuration can use the name: ids have one
// slash at most.
var doorID = component.NewIDWithName(component.MustNewType("controlclient"), "transport/pins")

var errNoTransport = errors.New("the client's innermost layer is not an HTTP transport")

// transportDoor pins the transport that confighttp made and remembers it.
type transportDoor struct {
	component.StartFunc
	component.ShutdownFunc

	pins       pinSet
	serverName string
	transport  *http.Transport
}

var _ extensionmiddleware.HTTPClient = (*transportDoor)(nil)

// GetHTTPRoundTripper returns the function that is handed the transport.
func (d *transportDoor) GetHTTPRoundTripper(context.Context) (extensionmiddleware.WrapHTTPRoundTripperFunc, error) {
	return func(_ context.Context, next http.RoundTripper) (http.RoundTripper, error) {
		transport, ok := next.(*http.Transport)
		if !ok {
			return nil, errNoTransport
		}
		if len(d.pins) > 0 && transport.TLSClientConfig != nil {
			d.pins.apply(transport.TLSClientConfig, d.serverName)
		}
		d.transport = transport
		return next, nil
	}, nil
}
