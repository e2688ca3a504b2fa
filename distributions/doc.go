// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

// Package distributions holds the configurations of continuum-collector as
// regional operator, central operator and collector of a cluster or host, one
// folder each. Its tests hold them to what the product promises.
package distributions
