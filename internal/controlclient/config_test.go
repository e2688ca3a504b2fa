// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package controlclient

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"
)

var goodPin = "sha256:" + strings.Repeat("0a", 32)

// The block is decoded the way a component does it: beside other keys.
func decode(t *testing.T, server map[string]any) Config {
	t.Helper()
	outer := struct {
		Server Config `mapstructure:"server"`
	}{NewDefaultConfig()}
	require.NoError(t, confmap.NewFromStringMap(map[string]any{"server": server}).Unmarshal(&outer))
	return outer.Server
}

func TestDecode(t *testing.T) {
	cfg := decode(t, map[string]any{
		"endpoint":  "https://ikhnos.example.com/prefix",
		"ca_pins":   []any{goodPin},
		"timeout":   "7s",
		"proxy_url": "http://proxy:3128",
		"headers":   map[string]any{"X-Fleet": "eu"},
		"tls":       map[string]any{"ca_file": "/ca.crt"},
		"keepalive": map[string]any{"idle_conn_timeout": "3s"},
	})
	require.NoError(t, confmap.Validate(&cfg))
	require.Equal(t, []string{goodPin}, cfg.CAPins)
	require.Equal(t, "https://ikhnos.example.com/prefix", cfg.Endpoint)
	require.Equal(t, 7*time.Second, cfg.Timeout)
	require.Equal(t, 3*time.Second, cfg.IdleConnTimeout) //nolint:staticcheck // the key people have in their files still works
	require.Equal(t, "/ca.crt", cfg.TLS.CAFile)

	require.Equal(t, 30*time.Second, NewDefaultConfig().Timeout)
}

func TestDecodeRefusesUnknownKeys(t *testing.T) {
	cfg := NewDefaultConfig()
	require.ErrorContains(t, confmap.NewFromStringMap(map[string]any{"ca_pin": goodPin}).Unmarshal(&cfg), "ca_pin")
}

// UX: every fault is reported at once, with its key and what to write.
func TestValidate(t *testing.T) {
	with := func(key string, value any) map[string]any {
		return map[string]any{"endpoint": "https://ikhnos.example.com", key: value}
	}
	for name, tc := range map[string]struct {
		server map[string]any
		want   error
	}{
		"nothing":              {map[string]any{}, errEndpointMissing},
		"plain http":           {with("endpoint", "http://ikhnos.example.com"), errPlainHTTP},
		"no scheme":            {with("endpoint", "ikhnos.example.com:8443"), errEndpointForm},
		"another scheme":       {with("endpoint", "grpc://ikhnos.example.com"), errPlainHTTP},
		"query":                {with("endpoint", "https://ikhnos.example.com?a=b"), errEndpointForm},
		"user in URL":          {with("endpoint", "https://me:secret@ikhnos.example.com"), errEndpointForm},
		"insecure":             {with("tls", map[string]any{"insecure": true}), errInsecure},
		"insecure_skip_verify": {with("tls", map[string]any{"insecure_skip_verify": true}), errSkipVerify},
		"auth":                 {with("auth", map[string]any{"authenticator": "basicauth"}), errAuth},
		"cookies":              {with("cookies", map[string]any{"enabled": true}), errCookies},
		"authorization header": {with("headers", map[string]any{"authorization": "x"}), errAuthHeader},
		"compression":          {with("compression", "gzip"), errCompression},
		"timeout":              {with("timeout", "-1s"), errTimeout},
		"pin without prefix":   {with("ca_pins", []any{strings.Repeat("0a", 32)}), errPinForm},
		"short pin":            {with("ca_pins", []any{"sha256:0a"}), errPinForm},
		"pin with colons":      {with("ca_pins", []any{"sha256:" + strings.Repeat("0a:", 32)}), errPinForm},
		"proxy over https":     {map[string]any{"endpoint": "https://a", "ca_pins": []any{goodPin}, "proxy_url": "https://proxy"}, errPinProxy},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := decode(t, tc.server)
			require.ErrorIs(t, confmap.Validate(&cfg), tc.want)
			require.NotContains(t, confmap.Validate(&cfg).Error(), "secret@")
		})
	}
	all := decode(t, map[string]any{"tls": map[string]any{"insecure": true}, "timeout": "-1s"})
	err := all.Validate()
	for _, want := range []error{errEndpointMissing, errInsecure, errTimeout} {
		require.ErrorIs(t, err, want)
	}
}

func TestPlainHTTPIsAllowedInCode(t *testing.T) {
	cfg := NewDefaultConfig()
	cfg.Endpoint, cfg.PlainHTTP = "http://127.0.0.1:1", true
	require.NoError(t, cfg.Validate())
}
