// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/ikhnos/continuum/internal/controlapi"
)

// machineTexts say of machine paths what their fields do not.
var machineTexts = map[string]string{
	"POST " + controlapi.RouteEnroll: "The token is the authentication. It is spent for a key: with the same key it answers the same certificate again, " +
		"also beyond its hour, while that is neither revoked nor ended and its holder allowed. A refusal spends no token.",
	"POST " + controlapi.RouteRenew: "The proof is checked in this order: shape, its leaf's signature by one of our CAs, its own signature, clock, ledger entry, " +
		"the entry's state, jti, sender. Holder and role come from the entry alone. The same new key gets the same certificate again.",
	"GET " + controlapi.RoutePolicy: "For a receiver's leaf, also one that lived when its operator was revoked. With If-None-Match and wait, " +
		"304 comes when nothing has changed for so long or the server stops.",
	"POST " + controlapi.RoutePolicyReport: "For a receiver's leaf: at most every 30 s, and at once after a policy was applied. Counts are cumulative since startedAt. At most 1 MiB.",
	"POST " + controlapi.RouteHeartbeat:    "A body of this schema is kept, the last one; any other is drained. Every failure is the same answer.",
}

// Refusals that many operations share.
var (
	proofRefusals = []controlapi.Reason{
		controlapi.ReasonProofInvalid, controlapi.ReasonLeafUnknown, controlapi.ReasonClockSkew, controlapi.ReasonLeafNotInLedger,
		controlapi.ReasonOperatorRevoked, controlapi.ReasonLeafRevoked, controlapi.ReasonLeafEnded, controlapi.ReasonProofReplayed,
	}
	issueRefusals = []controlapi.Reason{
		controlapi.ReasonSenderRevoked, controlapi.ReasonSenderHeld, controlapi.ReasonClusterNotApproved,
		controlapi.ReasonCSRInvalid, controlapi.ReasonKeyUnsupported, controlapi.ReasonKeyInUse, controlapi.ReasonCAEnded,
	}
	tokenRefusals = []controlapi.Reason{
		controlapi.ReasonTokenUnknown, controlapi.ReasonTokenExpired, controlapi.ReasonTokenRevoked, controlapi.ReasonTokenSpent,
		controlapi.ReasonOperatorRevoked, controlapi.ReasonLeafRevoked, controlapi.ReasonLeafEnded,
	}
	connectRefusals = []controlapi.Reason{
		controlapi.ReasonOperatorRevoked, controlapi.ReasonClusterNotApproved, controlapi.ReasonSenderRevoked, controlapi.ReasonSenderHeld,
	}
)

// ownRefusals are what an operation refuses for reasons of its own, beside those of
// refusalsOf.
var ownRefusals = map[string][]controlapi.Reason{
	"POST " + controlapi.RouteEnroll: slices.Concat(tokenRefusals, issueRefusals),
	"POST " + controlapi.RouteRenew:  slices.Concat(proofRefusals, issueRefusals, []controlapi.Reason{controlapi.ReasonTooManyCertificates}),
	"GET " + controlapi.RoutePolicy: slices.Concat(proofRefusals, []controlapi.Reason{
		controlapi.ReasonRoleWrong, controlapi.ReasonLedgerRollback, controlapi.ReasonMediaTypeUnsupported,
	}),
	"POST " + controlapi.RoutePolicyReport: slices.Concat(proofRefusals, []controlapi.Reason{
		controlapi.ReasonRoleWrong, controlapi.ReasonLedgerRollback, controlapi.ReasonValidationFailed,
	}),

	"POST /api/v1/orgs":                                      {controlapi.ReasonNameTaken},
	"PUT " + orgPath + "/clusters/{id}":                      {controlapi.ReasonNameTaken},
	"POST " + orgPath + "/clusters":                          {controlapi.ReasonNameTaken},
	"PUT " + operatorPath:                                    {controlapi.ReasonNameTaken, controlapi.ReasonStateConflict, controlapi.ReasonDestinationNotAllowed},
	"POST " + orgPath + "/operators":                         {controlapi.ReasonNameTaken, controlapi.ReasonDestinationNotAllowed},
	"PATCH " + operatorPath:                                  {controlapi.ReasonOperatorRevoked},
	"POST " + operatorPath + "/revoke":                       {controlapi.ReasonInUse},
	"DELETE " + operatorPath:                                 {controlapi.ReasonInUse},
	"POST " + operatorPath + "/install":                      append(slices.Clone(connectRefusals), controlapi.ReasonCAEnded),
	"POST " + operatorPath + "/heartbeat":                    {controlapi.ReasonOperatorRevoked},
	"PUT " + operatorPath + "/senders/{holder}":              {controlapi.ReasonOperatorRevoked, controlapi.ReasonClusterNotApproved, controlapi.ReasonStateConflict, controlapi.ReasonDestinationNotAllowed},
	"POST " + operatorPath + "/senders/{holder}/revoke":      {controlapi.ReasonOperatorRevoked, controlapi.ReasonStateConflict},
	"POST " + operatorPath + "/senders/{holder}/restore":     {controlapi.ReasonOperatorRevoked, controlapi.ReasonClusterNotApproved},
	"POST " + operatorPath + "/senders/{holder}/rekey":       connectRefusals,
	"POST " + operatorPath + "/enrollment-tokens":            connectRefusals,
	"POST " + operatorPath + "/certificates/{serial}/revoke": {controlapi.ReasonOperatorRevoked},
}

// refusalsOf lists the reasons for which an operation may refuse.
func refusalsOf(e endpoint, in reflect.Type) []controlapi.Reason {
	all := append([]controlapi.Reason{}, ownRefusals[e.method+" "+e.path]...)
	if e.role != "" {
		all = append(all, controlapi.ReasonRequestMalformed, controlapi.ReasonAdminUnauthenticated, controlapi.ReasonForbidden, controlapi.ReasonCrossSiteRefused)
	}
	if strings.Contains(e.path, "{") {
		all = append(all, controlapi.ReasonNotFound)
	}
	switch {
	case e.security == heartbeatSecret:
		all = append(all, controlapi.ReasonHeartbeatUnauthorized)
	case e.method != http.MethodGet:
		all = append(all, controlapi.ReasonBodyTooLarge, controlapi.ReasonMediaTypeUnsupported)
		if e.role == "" {
			all = append(all, controlapi.ReasonRequestMalformed)
		} else if in != reflect.TypeFor[none]() {
			all = append(all, controlapi.ReasonValidationFailed)
		}
	case e.security == holderProof:
		all = append(all, controlapi.ReasonRequestMalformed)
	}
	for _, reason := range all {
		if reason.Info().Status == http.StatusUnauthorized {
			all = append(all, controlapi.ReasonRateLimited)
			break
		}
	}
	if e.path != "/healthz" {
		all = append(all, controlapi.ReasonUnavailable, controlapi.ReasonInternal)
	}
	return all
}

// byStatus lists reasons by the status that answers them.
func byStatus(reasons []controlapi.Reason) map[int]string {
	texts := map[int]string{}
	for _, reason := range reasons {
		status := reason.Info().Status
		if texts[status] != "" {
			texts[status] += ", "
		}
		texts[status] += string(reason)
	}
	return texts
}
