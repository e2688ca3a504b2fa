// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

// Package testserver is a control server of one operator for tests: it issues by
// token and by holder proof over real TLS, keeps what it issued in memory, and
// refuses, delays or misanswers when a test says so. It keeps the contract where
// holders can see it: order of checks, idempotent answers, one key per token.
package testserver
