// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

// Package version holds the version of the programs of this module.
package version

// Version is set at link time; a plain `go build` says dev.
var Version = "dev"
