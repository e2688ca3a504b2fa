// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

// Package backup writes everything that a control server keeps into one file,
// checks such a file, and restores it into an empty database of either kind.
//
// The file is JSON Lines: a header; for each table a line with its name and
// columns, then its rows as arrays; and a last line with the number of rows and
// the SHA-256 of all bytes before it. In a row a string is text, a number an
// integer, {"b64": …} bytes and null is null. Sessions are left out: people sign
// in again.
package backup
