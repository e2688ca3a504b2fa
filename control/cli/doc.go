// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

// Package cli is the command line of Ikhnos: the control server itself, the
// commands that administer it, and those that enrol and renew certificates for
// any program.
//
// Results go to standard output, progress to standard error and only on a
// terminal. A command ends with one of the exit codes in this package, and its
// error is three lines: what, why, and what to do.
package cli
