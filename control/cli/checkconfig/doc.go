// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

// Package checkconfig reviews a collector's configuration file without running it:
// what would let data pass without a verified sender, break at the first renewal,
// lose data while the next hop is away, or fail later and elsewhere. Every rule has
// a stable id, and every finding its line, why it matters and how to mend it.
package checkconfig
