// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

//go:generate go tool -modfile=../../../tools/mdatagen/go.mod mdatagen metadata.yaml

// Package certnameauth is a collector extension that authenticates every sender
// by the name on its client certificate, for each request anew, on OTLP/gRPC and
// OTLP/HTTP, and refuses who is revoked or not on the operator's list.
package certnameauth
