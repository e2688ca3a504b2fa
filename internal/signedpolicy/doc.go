// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

// Package signedpolicy signs and verifies an operator's sender policy: a compact
// JWS (RFC 7515) with ES256 by the operator's own CA, so that the certificate
// which a receiver already trusts for its senders vouches for the policy too, on
// the wire as in a file.
package signedpolicy
