// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

// Package pki holds the operators' private CAs: it makes and seals their keys,
// reads certificate requests, and signs leaves and revocation lists.
//
// A leaf goes through four small steps: the Recorder writes its ledger entry, and
// beside the commit a pure template is made from entry and key, the template is
// signed deterministically, and what was signed is parsed again and compared with
// the profile. No certificate leaves before its entry is durable, and the same
// entry and key always give the same bytes.
package pki
