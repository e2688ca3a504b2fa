// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

// Package monitoring holds the alert rules and dashboards for the metrics of the
// control server and the collectors; its tests keep them right.
package monitoring
