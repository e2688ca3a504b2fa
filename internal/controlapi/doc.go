// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

// Package controlapi holds what the control server and its clients say to each
// other: routes, wire types, the closed list of reasons and the form of secrets.
// It imports the standard library alone, so that any program may speak the API.
//
// Times are RFC 3339 UTC in whole seconds; see [Seconds]. Fields that end in Ms
// are Unix milliseconds and stand beside such a time where a second is too
// coarse (receipts measure a cut-off in milliseconds).
package controlapi

import "time"

// Seconds cuts t to the whole UTC second, the form every time has on the wire
// and in the store.
func Seconds(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }
