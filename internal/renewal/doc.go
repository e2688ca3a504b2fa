// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

// Package renewal decides when a leaf is renewed and how long to wait after a
// failure. It is pure: dates, the clock and random numbers come in as values.
package renewal
