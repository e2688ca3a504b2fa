// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

// Package holder keeps one certificate alive for whoever has its private key: it
// enrols with a token, renews with a holder proof, adopts a newer pair that
// another holder of the same certificate stored, checks what it was given before
// it replaces anything, and publishes it in a certificate directory.
//
// A key is made here and durable before a request leaves; it is used again until
// the request was answered, so that a lost answer costs neither a token nor an
// identity. The store is the directory itself, or a Kubernetes Secret that the
// pods of one workload share.
//
// A [Holder] is used by one goroutine, but [Holder.Status] by any.
package holder
