// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configopaque"
	"go.opentelemetry.io/collector/confmap"

	"github.com/ikhnos/continuum/internal/controlclient"
)

const (
	defaultInterval = 60 * time.Second
	minInterval     = 10 * time.Second
	maxInterval     = 60 * time.Second
)

var (
	errInterval      = errors.New("`interval` must be between 10s and 60s")
	errSecret        = errors.New("exactly one of `secret_file` and `secret` must be set")
	errWhenUnhealthy = errors.New("`when_unhealthy` must be `send` or `skip`")
)

// WhenUnhealthy says what happens to a beat while a component is in an error state.
type WhenUnhealthy string

// Values of when_unhealthy.
const (
	// Send beats with the status in the body.
	Send WhenUnhealthy = "send"
	// Skip stays silent, so that the server calls the operator offline.
	Skip WhenUnhealthy = "skip"
)

// Config is the configuration of the heartbeat extension.
type Config struct {
	// Server is where the beats go; a bare base URL gets the standard path.
	Server controlclient.Config `mapstructure:"server"`
	// AllowPlainHTTP lets Server be an http:// address, for throw-away tests only.
	AllowPlainHTTP bool `mapstructure:"allow_plain_http"`
	// Interval between two beats, 10s to 60s.
	Interval time.Duration `mapstructure:"interval"`
	// SecretFile holds the heartbeat secret. It is read again at every beat, so
	// that a rotated secret needs no restart.
	SecretFile string `mapstructure:"secret_file"`
	// Secret is the heartbeat secret itself, for example from the environment.
	Secret configopaque.String `mapstructure:"secret"`
	// WhenUnhealthy is send or skip.
	WhenUnhealthy WhenUnhealthy `mapstructure:"when_unhealthy"`
}

func createDefaultConfig() component.Config {
	return &Config{
		Server:        controlclient.NewDefaultConfig(),
		Interval:      defaultInterval,
		WhenUnhealthy: Send,
	}
}

// Unmarshal reads the configuration and tells the server block whether plain
// HTTP is allowed before that block is validated.
func (c *Config) Unmarshal(conf *confmap.Conf) error {
	if err := conf.Unmarshal(c); err != nil {
		return err
	}
	c.Server.PlainHTTP = c.AllowPlainHTTP
	return nil
}

// Validate reports every fault of the configuration at once.
func (c *Config) Validate() error {
	var errs error
	if c.Interval < minInterval || c.Interval > maxInterval {
		errs = errors.Join(errs, fmt.Errorf("%w, not %s", errInterval, c.Interval))
	}
	if (c.SecretFile == "") == (c.Secret == "") {
		errs = errors.Join(errs, errSecret)
	}
	if c.WhenUnhealthy != Send && c.WhenUnhealthy != Skip {
		errs = errors.Join(errs, fmt.Errorf("%w, not %q", errWhenUnhealthy, string(c.WhenUnhealthy)))
	}
	return errs
}
