// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension"

	"github.com/ikhnos/continuum/components/extension/heartbeat/internal/metadata"
)

// NewFactory returns the factory of the heartbeat extension.
func NewFactory() extension.Factory {
	return extension.NewFactory(metadata.Type, createDefaultConfig, create, metadata.ExtensionStability)
}

func create(_ context.Context, set extension.Settings, cfg component.Config) (extension.Extension, error) {
	return newHeartbeat(cfg.(*Config), set)
}
