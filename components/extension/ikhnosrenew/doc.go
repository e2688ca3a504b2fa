// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

//go:generate go tool -modfile=../../../tools/mdatagen/go.mod mdatagen metadata.yaml

// Package ikhnosrenew is a collector extension that enrols and renews the
// collector's own certificates in its process: keys are made where they are used
// and never leave, and every other component reads plain PEM files.
package ikhnosrenew
