// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

// Package pki holds the operators' private CAs: it makes and seals their keys,
// reads certificate requests, and signs leaves and revocation lists.
//
// A leaf goes through four small steps: the Recorder writes its ledger entry, a
// pure template is made from entry and key, the template is signed
// deterministically, and what was signed is parsed again and compared with the
// profile. So no certificate exists without an entry, and the same entry and key
// always give the same bytes.
package pki
