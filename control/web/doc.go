// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

// Package web is the control server's web page: HTML from the server, one style
// sheet, no script. It shows the same reads as the API and changes nothing but
// its own sessions. Whoever signs in with an admin token sees the token's
// organisation.
package web
