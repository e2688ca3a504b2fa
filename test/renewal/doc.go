// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

// Package renewal measures how the ikhnosrenew extension gets and renews
// certificates, against a real control server: what many renewals leave behind in a
// process, and how long a first leaf takes.
package renewal
