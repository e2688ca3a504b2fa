// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

// Package process runs programs as children that end with their parent, each with
// its output in a file of its own, and waits for what they bring about. The demo,
// the benchmarks and the tests with real processes start theirs with it.
package process
