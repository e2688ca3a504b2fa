// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

// Package audit names what the control server records about its own changes:
// who did what to which object. An entry never holds a secret, a token, a key or
// a certificate. Single heartbeats and reports are not audited.
package audit
