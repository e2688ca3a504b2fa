// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

// Package assembly runs several of our components in one collector, in this process:
// what none of them can test alone, because components do not import each other.
package assembly
