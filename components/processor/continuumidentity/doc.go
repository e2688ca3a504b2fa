// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

//go:generate go tool -modfile=../../../tools/mdatagen/go.mod mdatagen metadata.yaml

// Package continuumidentity is a collector processor that decides what a record
// may say about its origin. With `sender` it removes every reserved attribute
// and writes the identity of the authenticated sender onto the resource; with
// `operator` it writes the identity of the operator that relays the record.
package continuumidentity
