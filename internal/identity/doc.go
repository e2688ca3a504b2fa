// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

// Package identity holds what both sides must agree on about who sent a record:
// the attribute keys, the rule that reserves them, the names on certificates,
// and what an authenticated sender looks like to the rest of a pipeline.
package identity
