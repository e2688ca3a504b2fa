// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package holderproof

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"math/big"
	"time"
)

// ErrClockSkew says that the proof was made too far from the server's time, or
// has ended: the reason clock_skew, answered with serverTime.
var ErrClockSkew = errors.New("the proof's time is not the server's time")

var (
	errSignature = errors.New("the proof is not signed by the key of its certificate")
	errMethod    = errors.New("the proof is for another method")
	errRoute     = errors.New("the proof is for another route")
	errBody      = errors.New("the proof is for another body")
)

// VerifySignature checks the ES256 signature by the leaf's key.
func (p *Proof) VerifySignature() error {
	pub, ok := p.Leaf.PublicKey.(*ecdsa.PublicKey)
	if !ok || pub.Curve != elliptic.P256() {
		return errKeyUnsupported
	}
	digest := sha256.Sum256(p.input)
	r := new(big.Int).SetBytes(p.signature[:scalar])
	s := new(big.Int).SetBytes(p.signature[scalar:])
	if !ecdsa.Verify(pub, digest[:], r, s) {
		return errSignature
	}
	return nil
}

// Matches checks that the proof was made for req: method, route and body.
func (p *Proof) Matches(req Request) error {
	switch {
	case p.Claims.HTM != req.Method:
		return errMethod
	case p.Claims.HTU != req.Route:
		return errRoute
	case subtle.ConstantTimeCompare([]byte(p.Claims.BH), []byte(bodyHash(req.Body))) != 1:
		return errBody
	}
	return nil
}

// CheckClock returns [ErrClockSkew] unless iat is within [ClockTolerance] of
// now and exp has not passed.
func (p *Proof) CheckClock(now time.Time) error {
	seconds, tolerance := now.Unix(), int64(ClockTolerance/time.Second)
	if seconds-p.Claims.IAT > tolerance || p.Claims.IAT-seconds > tolerance || seconds > p.Claims.EXP {
		return ErrClockSkew
	}
	return nil
}
