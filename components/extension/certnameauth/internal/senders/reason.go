// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package senders

// Reason is why a request was refused, or Accepted.
type Reason uint8

// Reasons in the order in which they are looked for: the first that applies is
// the one that is answered (contract, section 11). Timeout is found later, when
// a request was held too long; UseMiddlewares where no certificate can be seen.
const (
	Accepted Reason = iota
	NotVerified
	Ended
	NotLoaded
	Stale
	OperatorRevoked
	Ambiguous
	Usage
	Unknown
	NotYetKnown
	Mismatch
	CertificateRevoked
	SenderRevoked
	SenderHeld
	Timeout
	UseMiddlewares

	// Reasons is the number of reasons, for arrays indexed by one.
	Reasons
)

var reasonNames = [Reasons]string{
	Accepted:           "accepted",
	NotVerified:        "certificate_not_verified",
	Ended:              "certificate_ended",
	NotLoaded:          "policy_not_loaded",
	Stale:              "policy_stale",
	OperatorRevoked:    "operator_revoked",
	Ambiguous:          "name_ambiguous",
	Usage:              "usage_wrong",
	Unknown:            "sender_unknown",
	NotYetKnown:        "sender_not_yet_known",
	Mismatch:           "identity_mismatch",
	CertificateRevoked: "certificate_revoked",
	SenderRevoked:      "sender_revoked",
	SenderHeld:         "sender_held",
	Timeout:            "timeout",
	UseMiddlewares:     "use_middlewares",
}

// String is the reason's word on the wire, in metrics and in logs.
func (r Reason) String() string { return reasonNames[r] }

// Retryable says whether the sender keeps its data and tries again: the fault is
// ours, or passes by itself. Every other refusal drops the data by design.
func (r Reason) Retryable() bool {
	switch r {
	case NotVerified, Ended, NotLoaded, Stale, NotYetKnown, Timeout:
		return true
	}
	return false
}
