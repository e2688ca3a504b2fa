// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

// Package trail reads the audit trail, for the API and the web page alike. What
// writes it is ledger.Tx.Audit.
package trail
