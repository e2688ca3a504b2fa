// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package itemlimit

import (
	"errors"
	"fmt"

	"go.opentelemetry.io/collector/component"
)

// defaultMaxItemBytes is a third of the largest batch that the shipped exporters
// send, so that an item fits into one whatever it stands in.
const defaultMaxItemBytes = 1 << 20

var errMaxItemBytes = errors.New("`max_item_bytes` must be positive")

// Config of the processor.
type Config struct {
	// MaxItemBytes is the largest protobuf size of one span, log record, data point
	// or profile that passes. What stands around it may have as much, and always
	// the default.
	MaxItemBytes int `mapstructure:"max_item_bytes"`

	// prevent unkeyed literal initialization
	_ struct{}
}

func createDefaultConfig() component.Config { return &Config{MaxItemBytes: defaultMaxItemBytes} }

// Validate checks the configuration.
func (c *Config) Validate() error {
	if c.MaxItemBytes <= 0 {
		return fmt.Errorf("%w, not %d", errMaxItemBytes, c.MaxItemBytes)
	}
	return nil
}
