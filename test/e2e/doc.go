// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

// Package e2e drives the programs that `make build` makes, as processes on
// loopback, through the real API, and reads what arrived at a sink record by
// record. CONTINUUM_BIN names the folder of the programs (default: bin).
package e2e
