// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

// Package demo runs the main job on loopback: the control server, a central
// operator, a regional operator and two cluster collectors as real processes,
// joined through the real API, with a sink behind the central operator that keeps
// what arrived. `ikhnos demo` tells its story; the end-to-end tests drive the
// same fleet and read the same sink.
package demo
