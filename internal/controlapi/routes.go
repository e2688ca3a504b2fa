// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package controlapi

// Routes of the machine paths. A holder proof's htu claim is exactly one of
// these, without scheme, host, prefix or query.
const (
	RouteEnroll       = "/api/v1/operator-certificates/enroll"
	RouteRenew        = "/api/v1/operator-certificates/renew"
	RoutePolicy       = "/api/v1/operator-policy"
	RoutePolicyReport = "/api/v1/operator-policy/report"
	RouteHeartbeat    = "/api/v1/operator-heartbeat"
)

// RouteCRL is the path under which the revocation list of an operator's CA is
// served, and the value of the policy's crl field.
func RouteCRL(operatorID string) string { return "/api/v1/operators/" + operatorID + "/crl" }

// Sizes and bounds of the machine paths (contract, section 4).
const (
	MaxBodyBytes      = 64 << 10
	MaxHeartbeatBytes = 1 << 20
	MaxReportBytes    = 1 << 20
	MaxHeaderBytes    = 16 << 10
	MaxCSRBytes       = 16 << 10
	// MaxPolicyWait is the longest ?wait= of a policy poll, in seconds.
	MaxPolicyWait = 60
)

// ProblemContentType is the media type of every error answer (RFC 9457).
const ProblemContentType = "application/problem+json"

// CRLContentType is the media type of a served revocation list (RFC 5280).
const CRLContentType = "application/pkix-crl"
