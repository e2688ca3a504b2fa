// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package controlclient

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"go.opentelemetry.io/collector/config/confighttp"
	"go.opentelemetry.io/collector/confmap"
)

// defaultTimeout bounds every call but a long poll, which may take its wait on
// top.
const defaultTimeout = 30 * time.Second

// Faults of a server block. Each quotes its YAML key and says what to write.
var (
	errEndpointMissing = errors.New(`"endpoint" is missing: write the base URL of the control server, such as https://ikhnos.example.com`)
	errEndpointForm    = errors.New(`"endpoint" is not a base URL: write scheme, host, port and at most a path, such as https://ikhnos.example.com:8443`)
	errPlainHTTP       = errors.New(`"endpoint" must start with https://: certificates and secrets never travel in clear`)
	errInsecure        = errors.New(`"tls::insecure" must not be set: use "ca_pins" or "tls::ca_file" to trust a private server certificate`)
	errSkipVerify      = errors.New(`"tls::insecure_skip_verify" must not be set: use "ca_pins" or "tls::ca_file" to trust a private server certificate`)
	errAuth            = errors.New(`"auth" must not be set: the server knows the caller by its token, holder proof or secret`)
	errCookies         = errors.New(`"cookies" must not be set: the machine paths use none`)
	errAuthHeader      = errors.New(`"headers" must not contain Authorization: the server knows the caller by its token, holder proof or secret`)
	errCompression     = errors.New(`"compression" must not be set: a holder proof covers the body as it is sent`)
	errTimeout         = errors.New(`"timeout" must be positive`)
	errPinForm         = errors.New(`"ca_pins" must hold pins as the server prints them at start: sha256: and 64 hexadecimal digits`)
	errPinProxy        = errors.New(`"proxy_url" must start with http:// beside "ca_pins": a pin would be checked against the proxy's own certificate`)
)

// Config is the `server` block: a confighttp client beside the pins of the
// server's CA.
type Config struct {
	confighttp.ClientConfig `mapstructure:",squash"`

	// CAPins are SHA-256 hashes of public keys, "sha256:<hex>". When set, only
	// certificates of the presented chain that carry such a key are roots.
	CAPins []string `mapstructure:"ca_pins"`

	// PlainHTTP lets the endpoint start with http://. Only heartbeat sets it,
	// from a key of its own.
	PlainHTTP bool `mapstructure:"-"`
}

// NewDefaultConfig returns a Config with a timeout of 30 s and without endpoint.
func NewDefaultConfig() Config {
	cfg := Config{ClientConfig: confighttp.NewDefaultClientConfig()}
	cfg.Timeout = defaultTimeout
	return cfg
}

// clientKeys is confighttp's client without its Unmarshal, which takes any key.
type clientKeys confighttp.ClientConfig

// Unmarshal decodes the whole block. Without it the method of the embedded
// client would be taken for ours and drop ca_pins, and a mistyped key, such as
// ca_pin, would go unnoticed.
func (c *Config) Unmarshal(conf *confmap.Conf) error {
	known := struct {
		Client clientKeys `mapstructure:",squash"`
		CAPins []string   `mapstructure:"ca_pins"`
	}{}
	if err := conf.Unmarshal(&known); err != nil {
		return err
	}
	return conf.Unmarshal(c)
}

// Validate reports every fault of the block at once.
func (c *Config) Validate() error {
	var faults []error
	check := func(bad bool, fault error) {
		if bad {
			faults = append(faults, fault)
		}
	}
	if _, err := parseBase(c.Endpoint, c.PlainHTTP); err != nil {
		faults = append(faults, err)
	}
	_, hasAuthorization := headerNamed(c, "Authorization")
	check(c.TLS.Insecure, errInsecure)
	check(c.TLS.InsecureSkipVerify, errSkipVerify)
	check(c.Auth.HasValue(), errAuth)
	check(c.Cookies.HasValue(), errCookies)
	check(hasAuthorization, errAuthHeader)
	check(c.Compression.IsCompressed(), errCompression)
	check(c.Timeout < 0, errTimeout)
	if _, err := parsePins(c.CAPins); err != nil {
		faults = append(faults, err)
	}
	check(len(c.CAPins) > 0 && strings.HasPrefix(strings.ToLower(c.ProxyURL), "https:"), errPinProxy)
	if err := c.ClientConfig.Validate(); err != nil {
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// headerNamed finds a header of the configuration in any case.
func headerNamed(c *Config, name string) (string, bool) {
	for key, value := range c.Headers.Iter {
		if strings.EqualFold(key, name) {
			return string(value), true
		}
	}
	return "", false
}

// parseBase reads the base URL to whose path, a prefix, the routes are added.
func parseBase(endpoint string, plainHTTP bool) (*url.URL, error) {
	if endpoint == "" {
		return nil, errEndpointMissing
	}
	base, err := url.Parse(endpoint)
	if err != nil || base.Host == "" || base.User != nil || base.RawQuery != "" || base.ForceQuery || base.Fragment != "" {
		return nil, errEndpointForm
	}
	switch base.Scheme {
	case "https":
	case "http":
		if !plainHTTP {
			return nil, errPlainHTTP
		}
	default:
		return nil, fmt.Errorf("%w, not %q", errPlainHTTP, base.Scheme)
	}
	return base, nil
}
