// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package controlapi

import "net/http"

// Reason says in one word why the server refused. The list is closed: contract,
// section 9.
type Reason string

// Reasons of the control server.
const (
	ReasonRequestMalformed      Reason = "request_malformed"
	ReasonValidationFailed      Reason = "validation_failed"
	ReasonDestinationNotAllowed Reason = "destination_not_allowed"
	ReasonBodyTooLarge          Reason = "body_too_large"
	ReasonMediaTypeUnsupported  Reason = "media_type_unsupported"
	ReasonMethodNotAllowed      Reason = "method_not_allowed"
	ReasonNotFound              Reason = "not_found"
	ReasonAdminUnauthenticated  Reason = "admin_unauthenticated"
	ReasonForbidden             Reason = "forbidden"
	ReasonCrossSiteRefused      Reason = "cross_site_refused"
	ReasonNameTaken             Reason = "name_taken"
	ReasonInUse                 Reason = "in_use"
	ReasonStateConflict         Reason = "state_conflict"
	ReasonManaged               Reason = "managed"
	ReasonClusterNotApproved    Reason = "cluster_not_approved"
	ReasonTokenUnknown          Reason = "token_unknown"
	ReasonTokenExpired          Reason = "token_expired"
	ReasonTokenRevoked          Reason = "token_revoked"
	ReasonTokenSpent            Reason = "token_spent"
	ReasonCSRInvalid            Reason = "csr_invalid"
	ReasonKeyUnsupported        Reason = "key_unsupported"
	ReasonKeyInUse              Reason = "key_in_use"
	ReasonProofInvalid          Reason = "proof_invalid"
	ReasonClockSkew             Reason = "clock_skew"
	ReasonProofReplayed         Reason = "proof_replayed"
	ReasonLeafUnknown           Reason = "leaf_unknown"
	ReasonLeafNotInLedger       Reason = "leaf_not_in_ledger"
	ReasonLeafEnded             Reason = "leaf_ended"
	ReasonLeafRevoked           Reason = "leaf_revoked"
	ReasonSenderHeld            Reason = "sender_held"
	ReasonSenderRevoked         Reason = "sender_revoked"
	ReasonOperatorRevoked       Reason = "operator_revoked"
	ReasonRoleWrong             Reason = "role_wrong"
	ReasonCAEnded               Reason = "ca_ended"
	ReasonTooManyCertificates   Reason = "too_many_certificates"
	ReasonRateLimited           Reason = "rate_limited"
	ReasonLedgerRollback        Reason = "ledger_rollback"
	ReasonHeartbeatUnauthorized Reason = "heartbeat_unauthorized"
	ReasonUnavailable           Reason = "unavailable"
	ReasonInternal              Reason = "internal"
)

// ReasonInfo is what is fixed about a reason.
type ReasonInfo struct {
	Status    int
	Retryable bool
	Title     string
	Remedy    string
}

// Info returns what is fixed about r; a reason that is not on the list is
// treated as internal.
func (r Reason) Info() ReasonInfo {
	if info, ok := reasons[r]; ok {
		return info
	}
	return reasons[ReasonInternal]
}

// reasons is the closed list; Explanations tells of it.
var reasons = map[Reason]ReasonInfo{
	ReasonRequestMalformed:      {http.StatusBadRequest, false, "The request cannot be read", "Send one JSON document with the fields that /api/openapi.json lists."},
	ReasonValidationFailed:      {http.StatusUnprocessableEntity, false, "A value breaks a rule", "Correct the fields listed under errors."},
	ReasonDestinationNotAllowed: {http.StatusUnprocessableEntity, false, "This destination is not allowed", "Choose an active central operator of the same organisation, or an endpoint."},
	ReasonBodyTooLarge:          {http.StatusRequestEntityTooLarge, false, "The body is too large", "Send at most 64 KiB."},
	ReasonMediaTypeUnsupported:  {http.StatusUnsupportedMediaType, false, "The body has a form that is not read here", "Send application/json without Content-Encoding."},
	ReasonMethodNotAllowed:      {http.StatusMethodNotAllowed, false, "This path does not take this method", "Use a method that the Allow header lists."},
	ReasonNotFound:              {http.StatusNotFound, false, "There is no such object", "Check the organisation and the id, for example with a list command."},
	ReasonAdminUnauthenticated:  {http.StatusUnauthorized, false, "An admin token is needed", "Send Authorization: Bearer ikadm_… with a token that has not ended."},
	ReasonForbidden:             {http.StatusForbidden, false, "The token's role does not allow this", "Use a token with a higher role."},
	ReasonCrossSiteRefused:      {http.StatusForbidden, false, "The request came from another site", "Use the page of this server."},
	ReasonNameTaken:             {http.StatusConflict, false, "The id is taken", "Choose another id; ids of operators are never used again."},
	ReasonInUse:                 {http.StatusConflict, false, "Something still depends on it", "Move or revoke the dependents first, or repeat with ?force=true."},
	ReasonStateConflict:         {http.StatusConflict, false, "The object's state does not allow this", "Read the object again and decide anew."},
	ReasonManaged:               {http.StatusConflict, false, "The object is managed by the server", "Change it through what manages it."},
	ReasonClusterNotApproved:    {http.StatusForbidden, false, "The cluster is not approved", "Approve it: ikhnos cluster approve ID."},
	ReasonTokenUnknown:          {http.StatusUnauthorized, false, "The enrolment token is not known", "Mint a new one: ikhnos token create."},
	ReasonTokenExpired:          {http.StatusUnauthorized, false, "The enrolment token has ended", "Mint a new one: ikhnos token create."},
	ReasonTokenRevoked:          {http.StatusUnauthorized, false, "The enrolment token was revoked or replaced", "Use the newest token, or mint one: ikhnos token create."},
	ReasonTokenSpent:            {http.StatusUnauthorized, false, "The enrolment token was used with another key", "Find out who used it, then mint a new one: ikhnos token create."},
	ReasonCSRInvalid:            {http.StatusUnprocessableEntity, false, "The certificate request cannot be used", "Send one PEM block CERTIFICATE REQUEST of at most 16 KiB with a valid signature."},
	ReasonKeyUnsupported:        {http.StatusUnprocessableEntity, false, "The key type is not supported", "Make an ECDSA P-256 key: openssl ecparam -name prime256v1 -genkey."},
	ReasonKeyInUse:              {http.StatusConflict, false, "The key is already in use", "Make a new key for every certificate."},
	ReasonProofInvalid:          {http.StatusUnauthorized, false, "The holder proof is not valid", "Sign a proof for exactly this request with the leaf's key."},
	ReasonClockSkew:             {http.StatusUnauthorized, true, "The clocks differ too much", "Sign again by serverTime, and correct the clock."},
	ReasonProofReplayed:         {http.StatusUnauthorized, true, "The holder proof was used before", "Sign a new proof for every attempt."},
	ReasonLeafUnknown:           {http.StatusUnauthorized, false, "The certificate is from no CA of this server", "Enrol at this server with a token."},
	ReasonLeafNotInLedger:       {http.StatusForbidden, false, "The ledger does not know the certificate", "After a restore: ikhnos cert adopt; otherwise enrol again."},
	ReasonLeafEnded:             {http.StatusForbidden, false, "The certificate has ended", "Enrol again with a new token."},
	ReasonLeafRevoked:           {http.StatusForbidden, false, "The certificate was revoked", "Enrol again with a new token, if the holder is still allowed."},
	ReasonSenderHeld:            {http.StatusForbidden, true, "The sender is on hold", "Wait until it is restored: ikhnos sender restore ID --operator OP."},
	ReasonSenderRevoked:         {http.StatusForbidden, false, "The sender was revoked", "Restore it and enrol again: ikhnos sender restore ID --operator OP."},
	ReasonOperatorRevoked:       {http.StatusForbidden, false, "The operator was revoked", "Create a new operator; a revoked one does not come back."},
	ReasonRoleWrong:             {http.StatusForbidden, false, "The certificate's role does not allow this", "Use the receiver's certificate for policy and report."},
	ReasonCAEnded:               {http.StatusConflict, false, "The operator's CA has ended", "Create a new operator and move its senders."},
	ReasonTooManyCertificates:   {http.StatusTooManyRequests, true, "The holder has too many living certificates", "Wait until one ends, or revoke those that are not used."},
	ReasonRateLimited:           {http.StatusTooManyRequests, true, "Too many failures from this address", "Correct the credential and wait for Retry-After."},
	ReasonLedgerRollback:        {http.StatusConflict, true, "The server knows less than the caller", "Restore a newer backup, or start a new epoch: ikhnos ledger new-epoch."},
	ReasonHeartbeatUnauthorized: {http.StatusUnauthorized, false, "The heartbeat was not accepted", "Mint a new secret: ikhnos operator heartbeat."},
	ReasonUnavailable:           {http.StatusServiceUnavailable, true, "The server cannot do this now", "Try again; see the server's log if it lasts."},
	ReasonInternal:              {http.StatusInternalServerError, true, "The server made a mistake", "Try again; report the requestId if it lasts."},
}
