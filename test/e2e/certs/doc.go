// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

// Package certs proves with real processes that certificates look after themselves:
// the matrix of which handshakes succeed, leaves of a minute under load, kills,
// pauses and absences at the wrong moment. CONTINUUM_SOAK=1 (`make soak`) runs the
// long counts.
package certs
