// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

// Package operators is the administration of the control server: organisations,
// clusters, operators, who may send to whom, enrolment tokens, admin tokens and
// heartbeat secrets. It owns the rules on all of them and the SQL of their
// tables.
//
// Every change is one transaction of the ledger's store together with its line in
// the audit trail and, where a policy shows it, with a new change number of every
// operator concerned. The store runs such a transaction alone, issuing included,
// so no certificate slips in beside a revocation. Everything is looked up by (organisation, id), so what
// belongs to another organisation is answered exactly like what does not exist.
// Errors that a caller can act on are *controlapi.Problem; all others are faults
// of the store.
package operators
