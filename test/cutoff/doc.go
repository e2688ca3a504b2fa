// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

// Package cutoff proves with real programs that a sender which was cut off stays
// out: in our collector that is killed right after, without its control server, and
// in a collector that somebody else builds, which has nothing of ours but
// certnameauth, a list and a revocation list.
package cutoff
