// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

// Package fleet is the declared fleet of `ikhnos apply` and `ikhnos export`: it
// reads and checks its file, writes one, and computes from a file and from what a
// server has which changes lead from the one to the other. It calls nobody.
package fleet
