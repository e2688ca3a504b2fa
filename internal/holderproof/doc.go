// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

// Package holderproof signs and verifies the proof by which the holder of a leaf
// authenticates one request to the control server: a compact JWS over method,
// route, body and time, carried as "Authorization: Holder <JWS>" (contract,
// sections 4 and 11). Both sides use this one implementation.
//
// A server checks in this order: [Parse] (shape), the leaf's signature by one of
// its CAs, [Proof.VerifySignature], [Proof.Matches], [Proof.CheckClock], and
// then its ledger. Everything that Parse, VerifySignature and Matches return
// means proof_invalid; CheckClock returns [ErrClockSkew].
package holderproof
