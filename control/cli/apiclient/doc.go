// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

// Package apiclient calls the administration API of a control server: for the
// command line, the demo and end-to-end tests.
//
// Every call returns a *controlapi.Problem when the server refused, and an
// *UnreachableError when no answer of a control server came back.
package apiclient
