// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

// Package senders decides who a verified leaf belongs to and whether that sender
// may send now. A List is one immutable generation of what is known: the senders
// of a policy or of a static list, what is revoked, and what was denied earlier.
// It does no I/O and reads no clock.
package senders
