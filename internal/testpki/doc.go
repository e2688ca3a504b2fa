// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

// Package testpki makes the CAs and leaves of contract section 3 for tests, and
// lets a test break any part of a leaf through a [LeafOption].
package testpki
