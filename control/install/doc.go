// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

// Package install renders what a person runs or pastes to install an operator's
// collector or to connect a sender: facts in, blocks out. It reads no clock, no
// file and no network, and everything printed by the API, the command line and the
// web page comes from here.
//
// Three rules hold for every block. Words are quoted for sh, so that no name breaks
// out of its place. Secrets go through standard input into a file or a Kubernetes
// Secret and stand in no argument, no chart value and no YAML. And a block may be
// run twice.
package install
