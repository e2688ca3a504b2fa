// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

// Package runtimestate lets extensions of one collector tell each other the
// little that a heartbeat reports: the certificates they hold and the policy
// they enforce.
//
// The collector hands an extension no reference to another one without naming
// it in the configuration, so the state lives in a registry of the process. It
// is keyed by the resource attribute service.instance.id, which the service
// gives to all components of one collector and to no other, so that several
// collectors in one process (tests do that) never mix. Nothing secret is kept.
package runtimestate
