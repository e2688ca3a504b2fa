// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

// Package controlclient is the HTTP client of the control server's machine
// paths: enrolment, renewal, policy, report and heartbeat (contract, section 4).
//
// [Config] is the `server` block that all our extensions share; programs that
// are not collectors use [New], with [PinnedTransport] for a CA pin. A call
// returns a *controlapi.Problem when the server answered one, and any other
// error when it could not be reached or was not understood; [ErrPinMismatch]
// says that whoever answered is not the pinned server. No call follows a
// redirect, none repeats itself except once after clock_skew or proof_replayed,
// and every attempt carries a new proof.
package controlclient
