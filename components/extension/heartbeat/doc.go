// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

//go:generate go tool -modfile=../../../tools/mdatagen/go.mod mdatagen metadata.yaml

// Package heartbeat is a collector extension that tells a control server at an
// interval that this collector runs: its version, its instance id, its own
// opinion of its components and the standing of its certificates. It never
// sends anything of the data that the collector relays.
package heartbeat
