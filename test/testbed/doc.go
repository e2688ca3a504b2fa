// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

// Package testbed starts the programs that `make build` makes, as real processes on
// loopback, for tests: [StartServer] a control server, [StartCollector] a collector
// from any configuration, [StartSink] a place in this process where OTLP ends and
// is counted. What a process needs of the API (operators, clusters, senders,
// tokens, certificates) is declared through [Server]. Everything ends with its
// test, and the logs of what failed are shown.
//
// CONTINUUM_BIN names the folder of the programs (default: bin of this checkout).
// CONTINUUM_SOAK asks for the full count of long proofs, see [Soak].
//
// Tests wait for conditions ([Eventually], WaitLog, Sink.Wait), never for times, so
// that they hold on a machine that is ten times slower.
package testbed
