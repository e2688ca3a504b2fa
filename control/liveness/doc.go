// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

// Package liveness takes heartbeats and tells from them which operators are
// alive (HB-20 to HB-24, HS-1 to HS-5). A heartbeat proves only that its sender
// knows the operator's heartbeat secret; it opens nothing else.
package liveness
