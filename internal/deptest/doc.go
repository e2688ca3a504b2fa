// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

// Package deptest holds the tests that keep the shape of the repository: who may
// import whom, where the clock may be read, which versions the collector is made
// of, and what every file begins with. It has no code of its own.
package deptest
