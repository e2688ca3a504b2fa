// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

// Package ledger is the store of the control server and, in it, the append-only
// record of every certificate that was issued: who holds it, who issued it, when
// it ends, and never the certificate or its key.
//
// It runs on SQLite and on PostgreSQL with the same SQL. An Update that returned
// nil is durable, and no two Updates interleave: on SQLite one goroutine runs
// them and commits them in groups, on PostgreSQL they hold one lock. Only Issue
// runs side by side for different operators.
package ledger
