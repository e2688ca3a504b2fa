// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

//go:generate go tool -modfile=../../../tools/mdatagen/go.mod mdatagen metadata.yaml

// Package itemlimit is a collector processor that drops single spans, log
// records, data points and profiles that are too large, and says whose they were.
// Without it a byte-sized exporter batch drops such an item together with
// everything that happens to stand behind it, of other senders too.
package itemlimit
