// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

// Command ikhnos is the control server of Continuum and its command line.
package main
