// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ikhnosrenew

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension"

	"github.com/ikhnos/continuum/components/extension/ikhnosrenew/internal/metadata"
)

// NewFactory returns the factory of the ikhnosrenew extension.
func NewFactory() extension.Factory {
	return extension.NewFactory(metadata.Type, createDefaultConfig, create, metadata.ExtensionStability)
}

func create(_ context.Context, set extension.Settings, cfg component.Config) (extension.Extension, error) {
	return newRenewer(cfg.(*Config), set)
}
