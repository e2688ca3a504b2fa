// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

// Package api is the HTTP face of the control server: the machine paths that
// collectors call, the administration that people and programs call, the API
// document and the pages that explain every refusal (contract, sections 4 and
// 11).
//
// Every refusal is a [controlapi.Problem]. Checks go organisation, role, body,
// object. Routes stand on the standard mux through huma's adapter; huma makes
// the API document out of the Go types, while reading bodies is done here,
// because the contract is stricter than JSON in Go: no unknown field, no key
// twice, no other case.
package api
