// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package operators

import (
	"time"

	"github.com/ikhnos/continuum/internal/controlapi"
)

// Sender is a cluster or an operator as the operator it sends to sees it.
// HolderID is the id of that cluster or operator. Address is what it dials, empty
// for the operator's own. Warnings come only with a connection.
type Sender struct {
	Name       string                 `json:"name"`
	HolderID   string                 `json:"holderId"`
	Kind       controlapi.Kind        `json:"kind"`
	OperatorID string                 `json:"operatorId"`
	OrgID      string                 `json:"orgId"`
	ClusterID  string                 `json:"clusterId,omitempty"`
	State      controlapi.SenderState `json:"state"`
	Address    string                 `json:"address"`
	ReceiptID  string                 `json:"receiptId,omitempty"` // of the last revocation or hold
	CreatedAt  time.Time              `json:"createdAt"`
	Warnings   []string               `json:"warnings,omitempty"`

	upstream      string   // the operator that OperatorID itself sends to, "" for none
	replaced      []string // serials of a rekey in progress
	replacedUntil int64    // Unix seconds, 0 without one
}

// SenderRequest connects a sender. Address is host[:port] when it dials another
// address than the operator's own.
type SenderRequest struct {
	Address string `json:"address,omitempty" doc:"host or host:port when it dials another address than the operator's own; the port is 4317 when left out."`
}

// RevokeReason says why a sender is cut off.
type RevokeReason string

// Reasons for a cut-off. A hold only denies and can be lifted without a new leaf.
const (
	RevokeCompromised RevokeReason = "compromised"
	RevokeRetired     RevokeReason = "retired"
	RevokeHold        RevokeReason = "hold"
)

// RevokeRequest revokes a sender. Note is free text for the audit trail.
type RevokeRequest struct {
	Reason RevokeReason `json:"reason" doc:"A hold only denies and is lifted by a restore; the others are for good."`
	Note   string       `json:"note,omitempty" maxLength:"500"`
}

// NoteRequest is the optional body of revocations that need no reason.
type NoteRequest struct {
	Note string `json:"note,omitempty" maxLength:"500"`
}

// RekeyRequest replaces a sender's key without loss. Overlap is how long the old
// leaves may live on, at most; an empty one is "1h".
type RekeyRequest struct {
	Overlap string `json:"overlap,omitempty" doc:"A duration from 1s to 720h; 1h when absent."`
}

// SenderToken answers restore and rekey: the sender's name and, where it has to
// enrol again, a one-use token that is shown once.
type SenderToken struct {
	Name  string `json:"name"`
	Token string `json:"token,omitempty"`
}

// TokenState is the standing of an enrolment token.
type TokenState string

// Token states. Expired follows from the clock and is not stored.
const (
	TokenOpen    TokenState = "open"
	TokenSpent   TokenState = "spent"
	TokenRevoked TokenState = "revoked"
	TokenExpired TokenState = "expired"
)

// Token is a one-use enrolment token of an operator. Token holds the secret in
// the answer to its creation alone. Name is the holder's: a sender's whole name,
// for a receiver the operator id.
type Token struct {
	TokenID   string          `json:"tokenId"`
	Token     string          `json:"token,omitempty"`
	Role      controlapi.Role `json:"role"`
	Name      string          `json:"name"`
	State     TokenState      `json:"state"`
	CreatedAt time.Time       `json:"createdAt"`
	CreatedBy string          `json:"createdBy"`
	ExpiresAt time.Time       `json:"expiresAt"`
}

// TokenRequest mints an enrolment token. Sender is a holder id, for role sender
// alone. An empty TTL is "1h"; at least 1s, at most 168h.
type TokenRequest struct {
	Role   controlapi.Role `json:"role"`
	Sender string          `json:"sender,omitempty" doc:"Id of the cluster or operator, with role sender alone."`
	TTL    string          `json:"ttl,omitempty" doc:"A duration from 1s to 168h; 1h when absent."`
}

// HeartbeatSecret answers the minting of a heartbeat secret, shown once.
type HeartbeatSecret struct {
	Secret string `json:"secret"`
}
