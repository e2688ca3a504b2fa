// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

// Package load measures the control server as a real process, over real TLS and
// with its default durability, beside step-ca, a widely used certificate
// authority. The program in bench/ runs it; scripts/bench builds and calls that.
//
// Keys and certificate requests are made before the clock starts, because what
// is measured are the servers. Generator and server share the machine's cores in
// both cases. It reads /proc and traces by strace, so it is for Linux alone.
package load
