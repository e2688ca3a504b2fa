// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

// Package ledgertest holds the tests that every database under the ledger must
// pass, and the fixtures they need. Tests only.
package ledgertest
