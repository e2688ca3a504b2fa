// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

// Package identityguardconverter is a confmap converter that changes nothing. It
// refuses a configuration in which data could pass without a verified sender, so
// that `validate`, a start and a reload all do.
package identityguardconverter
