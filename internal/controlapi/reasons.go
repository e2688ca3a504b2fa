// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package controlapi

import (
	"maps"
	"net/http"
	"slices"
)

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
	Title     string // what is wrong
	Detail    string // why, where nothing more is known of the case
	Remedy    string // what to do
}

// Info returns what is fixed about r; a reason that is not on the list is
// treated as internal.
func (r Reason) Info() ReasonInfo {
	if info, ok := reasons[r]; ok {
		return info
	}
	return reasons[ReasonInternal]
}

// Reasons is the closed list, sorted.
func Reasons() []Reason { return slices.Sorted(maps.Keys(reasons)) }

// reasons is the closed list; Explanations tells of it.
var reasons = map[Reason]ReasonInfo{
	ReasonRequestMalformed: {http.StatusBadRequest, false, "The request cannot be read",
		"What came is not what this path reads.",
		"Send one JSON document with the fields that /api/openapi.json lists."},
	ReasonValidationFailed: {http.StatusUnprocessableEntity, false, "A value breaks a rule",
		"Every field that breaks a rule stands under errors, each with its rule.",
		"Correct the fields listed under errors."},
	ReasonDestinationNotAllowed: {http.StatusUnprocessableEntity, false, "This destination is not allowed",
		"An operator sends to an OTLP endpoint or to an active central operator of its own organisation.",
		"Choose an active central operator of the same organisation, or an endpoint."},
	ReasonBodyTooLarge: {http.StatusRequestEntityTooLarge, false, "The body is too large",
		"The body is larger than what is read here, so nothing of it was used.",
		"Send less: 64 KiB are read, and 1 MiB of a report."},
	ReasonMediaTypeUnsupported: {http.StatusUnsupportedMediaType, false, "The body has a form that is not read here",
		"A body is read as plain JSON only.",
		"Send application/json without Content-Encoding."},
	ReasonMethodNotAllowed: {http.StatusMethodNotAllowed, false, "This path does not take this method",
		"The path exists, but not for this method.",
		"Use a method that the Allow header lists."},
	ReasonNotFound: {http.StatusNotFound, false, "There is no such object",
		"Nothing of this organisation has this path; what belongs to another one is answered the same.",
		"Check the organisation and the id, for example with a list command."},
	ReasonAdminUnauthenticated: {http.StatusUnauthorized, false, "An admin token is needed",
		"No admin token that is known and has not ended came with the request.",
		"Send Authorization: Bearer ikadm_… with a token that has not ended."},
	ReasonForbidden: {http.StatusForbidden, false, "The token's role does not allow this",
		"The token is good, but its role does not include this.",
		"Use a token with a higher role."},
	ReasonCrossSiteRefused: {http.StatusForbidden, false, "The request came from another site",
		"A browser sent this with the session of another page, so it may not be what its user wants.",
		"Use the page of this server."},
	ReasonNameTaken: {http.StatusConflict, false, "The id is taken",
		"This id is in use, or was used and cannot be given out again.",
		"Choose another id; ids of operators are never used again."},
	ReasonInUse: {http.StatusConflict, false, "Something still depends on it",
		"Others still send to it, and their data would be refused.",
		"Move or revoke the dependents first, or repeat with ?force=true."},
	ReasonStateConflict: {http.StatusConflict, false, "The object's state does not allow this",
		"The object is in a state in which this cannot be done.",
		"Read the object again and decide anew."},
	ReasonManaged: {http.StatusConflict, false, "The object is managed by the server",
		"The server keeps this object itself and would undo the change.",
		"Leave it to the server."},
	ReasonClusterNotApproved: {http.StatusForbidden, false, "The cluster is not approved",
		"The cluster waits for its approval or was revoked, so it may not send.",
		"Approve it: ikhnos cluster approve ID."},
	ReasonTokenUnknown: {http.StatusUnauthorized, false, "The enrolment token is not known",
		"The server has no such enrolment token: it was mistyped or cut off, or belongs to another server.",
		"Mint a new one: ikhnos token create."},
	ReasonTokenExpired: {http.StatusUnauthorized, false, "The enrolment token has ended",
		"The time of the enrolment token had passed before it was used.",
		"Mint a new one: ikhnos token create."},
	ReasonTokenRevoked: {http.StatusUnauthorized, false, "The enrolment token was revoked or replaced",
		"The enrolment token was revoked, a newer one took its place, or the server was restored since it was made.",
		"Use the newest token, or mint one: ikhnos token create."},
	ReasonTokenSpent: {http.StatusUnauthorized, false, "The enrolment token was used with another key",
		"Each enrolment token is good for one key, and only that key is answered again.",
		"Find out who used it, then mint a new one: ikhnos token create."},
	ReasonCSRInvalid: {http.StatusUnprocessableEntity, false, "The certificate request cannot be used",
		"The certificate request cannot be read or is not signed by its key; only its key is used.",
		"Send one PEM block CERTIFICATE REQUEST of at most 16 KiB with a valid signature."},
	ReasonKeyUnsupported: {http.StatusUnprocessableEntity, false, "The key type is not supported",
		"The key of the certificate request is not ECDSA P-256, the one kind that is certified here.",
		"Make an ECDSA P-256 key: openssl ecparam -name prime256v1 -genkey."},
	ReasonKeyInUse: {http.StatusConflict, false, "The key is already in use",
		"A certificate for this key exists already: the proving one, or one of another holder or role.",
		"Make a new key for every certificate."},
	ReasonProofInvalid: {http.StatusUnauthorized, false, "The holder proof is not valid",
		"The Authorization header does not hold a proof for exactly this request by the key of its certificate.",
		"Sign a proof for exactly this request with the leaf's key."},
	ReasonClockSkew: {http.StatusUnauthorized, true, "The clocks differ too much",
		"The proof was made more than 60 seconds before or after the server's time, or has ended.",
		"Sign again by serverTime, and correct the clock."},
	ReasonProofReplayed: {http.StatusUnauthorized, true, "The holder proof was used before",
		"This proof came before, and each is good once.",
		"Sign a new proof for every attempt."},
	ReasonLeafUnknown: {http.StatusUnauthorized, false, "The certificate is from no CA of this server",
		"No certificate authority of this server has signed the certificate of the proof.",
		"Enrol at this server with a token."},
	ReasonLeafNotInLedger: {http.StatusForbidden, false, "The ledger does not know the certificate",
		"A certificate authority of this server has signed the certificate, but its ledger has no entry of it.",
		"After a restore: ikhnos cert adopt; otherwise enrol again."},
	ReasonLeafEnded: {http.StatusForbidden, false, "The certificate has ended",
		"The certificate of the proof is past its end, and an ended one renews nothing.",
		"Enrol again with a new token."},
	ReasonLeafRevoked: {http.StatusForbidden, false, "The certificate was revoked",
		"The certificate, or one that it was renewed from, was revoked or replaced, which is for good.",
		"Enrol again with a new token, if the holder is still allowed."},
	ReasonSenderHeld: {http.StatusForbidden, true, "The sender is on hold",
		"An administrator has put the sender on hold; its certificate works again once it is restored.",
		"Wait until it is restored: ikhnos sender restore ID --operator OP."},
	ReasonSenderRevoked: {http.StatusForbidden, false, "The sender was revoked",
		"An administrator has cut the sender off, so it gets no certificate.",
		"Restore it and enrol again: ikhnos sender restore ID --operator OP."},
	ReasonOperatorRevoked: {http.StatusForbidden, false, "The operator was revoked",
		"The key of its certificate authority is erased, so nothing can be issued or renewed for it.",
		"Create a new operator; a revoked one does not come back."},
	ReasonRoleWrong: {http.StatusForbidden, false, "The certificate's role does not allow this",
		"The certificate is a sender's, and this path is for a receiver's.",
		"Use the receiver's certificate for policy and report."},
	ReasonCAEnded: {http.StatusConflict, false, "The operator's CA has ended",
		"The operator's certificate authority is so near its end that it signs nothing more.",
		"Create a new operator and move its senders."},
	ReasonTooManyCertificates: {http.StatusTooManyRequests, true, "The holder has too many living certificates",
		"The holder has 20 certificates of this role that have neither ended nor were revoked.",
		"Wait until one ends, or revoke those that are not used."},
	ReasonRateLimited: {http.StatusTooManyRequests, true, "Too many failures from this address",
		"More than 30 requests from this address failed to authenticate within a minute.",
		"Correct the credential and wait for Retry-After."},
	ReasonLedgerRollback: {http.StatusConflict, true, "The server knows less than the caller",
		"The caller has seen a later policy than this server has: the server was set back to an older state.",
		"Restore a newer backup, or start a new epoch: ikhnos ledger new-epoch."},
	ReasonHeartbeatUnauthorized: {http.StatusUnauthorized, false, "The heartbeat was not accepted",
		"The secret is not that of an active operator's heartbeat.",
		"Mint a new secret: ikhnos operator heartbeat."},
	ReasonUnavailable: {http.StatusServiceUnavailable, true, "The server cannot do this now",
		"The database did not answer, or the server is stopping or waiting for what operators report.",
		"Try again; see the server's log if it lasts."},
	ReasonInternal: {http.StatusInternalServerError, true, "The server made a mistake",
		"Something failed that should not; the server's log has it under the requestId.",
		"Try again; report the requestId if it lasts."},
}
