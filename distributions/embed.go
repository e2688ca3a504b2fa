// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

// Package distributions holds the configurations that continuum-collector ships
// with, for the programs that start it.
package distributions

import _ "embed"

// The configurations, as text. Each takes what differs from place to place from
// the environment.
var (
	//go:embed central/config.yaml
	Central []byte
	//go:embed regional/config.yaml
	Regional []byte
	//go:embed cluster/config.yaml
	Cluster []byte
)
