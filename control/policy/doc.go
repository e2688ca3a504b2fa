// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

// Package policy tells every operator who may send to it, and proves that a
// cut-off has bitten. It computes and signs an operator's policy once per change,
// keeps it in memory, and wakes whoever waits for it; it takes the reports of
// operator instances and feeds revocation receipts with them; and it signs the
// revocation list of every operator's CA.
package policy
