// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

// Package identityguard finds the ways by which data could enter a collector, or
// leave it, past the components that verify and stamp identity. It looks at the
// whole configuration and touches nothing else, so that the same check runs when
// a configuration is validated, when it is started or loaded again, and over the
// configurations that charts render.
package identityguard
