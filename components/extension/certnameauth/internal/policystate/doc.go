// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

// Package policystate holds the signed policy of an operator, what has to be
// remembered beside it, and the file in which both survive a restart. A server
// that was restored from a backup starts a new epoch and may have forgotten what
// it denied; this memory is why a denied sender stays denied all the same.
package policystate
