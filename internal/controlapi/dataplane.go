// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package controlapi

const (
	fromOperator403 = "the operator that received the request: PermissionDenied, 403"
	fromOperator503 = "the operator that received the request: Unavailable, 503"
	fromOperator400 = "the operator that received the request: InvalidArgument, 400"
	fromStatus      = "the collector's own status and log"
	dataDropped     = "dropped by design, and counted at the operator"
	dataKept        = "kept: the sender retries as long as its queue and retry window allow"
	dataUntouched   = "not touched: the pair in use stays in use"
)

// told is an explanation without where it is counted.
type told struct{ reason, meaning, from, data, remedy string }

// dataPlaneReasons are the refusals of an operator (contract, section 6) and the
// words of a collector's status (section 9).
var dataPlaneReasons = []told{
	{"certificate_not_verified", "The sender's certificate was not verified", fromOperator503, dataKept,
		"Give the receiver client_ca_file, and the sender a certificate of this operator's CA."},
	{"certificate_ended", "The sender's certificate ended while its connection was open", fromOperator503, dataKept,
		"Look why it was not renewed: ikhnos cert list --holder NAME; enrol again with a new token."},
	{"policy_not_loaded", "The operator has no policy yet", fromOperator503, dataKept,
		"Wait for the first policy; check that the operator reaches the control server."},
	{"policy_stale", "The operator's policy is older than max_staleness allows", fromOperator503, dataKept,
		"Restore the way from the operator to the control server."},
	{"sender_not_yet_known", "The sender is newer than the operator's policy", fromOperator503, dataKept,
		"Nothing: the operator fetches the policy at once."},
	{"no_identity", "The pipeline was entered without a sender's identity", fromOperator503, dataKept,
		"A fault of the operator's configuration: continuum-collector validate --config FILE names it."},
	{"timeout", "The request was held too long before it could be decided", fromOperator503, dataKept,
		"Look for a slow network or senders that never finish a request."},
	{"certificate_revoked", "The sender's certificate was revoked", fromOperator403, dataDropped,
		"If the sender is still allowed, enrol it again: ikhnos token create."},
	{"sender_revoked", "The sender was cut off", fromOperator403, dataDropped,
		"To let it in again: ikhnos sender restore ID --operator OP."},
	{"sender_held", "The sender is on hold", fromOperator403, dataDropped,
		"To end the hold: ikhnos sender restore ID --operator OP."},
	{"sender_unknown", "No sender of this name may send to the operator", fromOperator403, dataDropped,
		"Connect it: ikhnos sender connect CLUSTER --operator OPERATOR."},
	{"operator_revoked", "The operator was revoked and denies everyone", fromOperator403, dataDropped,
		"Connect the sender to another operator; a revoked one does not come back."},
	{"name_ambiguous", "The certificate's names match more than one sender", fromOperator403, dataDropped,
		"Issue one certificate per sender, with one name."},
	{"identity_mismatch", "The certificate's URI names another kind or id than its sender", fromOperator403, dataDropped,
		"Enrol the sender again with its own token."},
	{"usage_wrong", "The certificate is not one of a sender", fromOperator403, dataDropped,
		"Use the sender's certificate (clientAuth), not the receiver's."},
	{"identity_conflict", "Every resource of the request claimed an origin that is not the sender's", fromOperator400, dataDropped,
		"Remove continuum.* attributes at the sender, or use mode stamp."},
	{"origin_not_vouched", "Every resource of the request named an origin the operator may not relay", fromOperator400, dataDropped,
		"Connect that cluster to the relaying operator: ikhnos sender connect."},
	{"use_middlewares", "certnameauth stands under auth on HTTP, where it cannot see the certificate",
		"the operator that received the request: 401", dataDropped,
		"List it under middlewares: continuum-collector validate --config FILE names the place."},
	{"ca_changed", "The server answered with another CA than the one on disk", fromStatus, dataUntouched,
		"Find out why; enrol into an empty directory to take the new CA."},
	{"pin_mismatch", "The control server presents no certificate with a pinned key", fromStatus, dataUntouched,
		"Compare ca_pins with the pin that the server logs at its start."},
	{"policy_signature", "A policy is not signed by the operator's CA", fromStatus, "decided by the last good policy",
		"Find out what answers in the control server's place."},
	{"policy_regressed", "The server offered an older policy than the one in force", fromStatus, "decided by the newer policy",
		"After a restore of the server: ikhnos ledger new-epoch."},
	{"leaf_rejected", "The new certificate does not fit: key, names, role, chain or dates", fromStatus, dataUntouched,
		"See the log for what does not fit; ikhnos cert inspect FILE."},
	{"secret_conflict", "Another pod wrote the certificate's Secret at the same time", fromStatus, dataUntouched,
		"Nothing: the collector takes what the other one wrote."},
	{"server_unreachable", "The control server did not answer", fromStatus, dataUntouched,
		"Check endpoint, proxy and network; certificates have 20 days left when renewal starts."},
}

// identityReasons are those that continuumidentity answers, not certnameauth.
var identityReasons = []string{"no_identity", "identity_conflict", "origin_not_vouched"}
