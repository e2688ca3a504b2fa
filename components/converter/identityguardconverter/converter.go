// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package identityguardconverter

import (
	"context"

	"go.opentelemetry.io/collector/confmap"
	"go.uber.org/zap"

	"github.com/ikhnos/continuum/internal/identityguard"
)

// NewFactory returns the converter for a collector's manifest.
func NewFactory() confmap.ConverterFactory {
	return confmap.NewConverterFactory(func(set confmap.ConverterSettings) confmap.Converter {
		return converter{logger: set.Logger}
	})
}

type converter struct{ logger *zap.Logger }

// Convert checks the configuration after references were expanded.
func (c converter) Convert(_ context.Context, conf *confmap.Conf) error {
	return identityguard.Enforce(conf.ToStringMap(), identityguard.Written, c.logger)
}
