// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

// Package docs runs the documentation: every block of commands in it against a real
// control server, a page as one session of bash, in the order of the page. It also
// checks that each command of ikhnos that the text names exists with its flags, and
// that links lead somewhere. What cannot run stands in a short list with its reason.
package docs
