// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"encoding/json"
	"errors"
	"time"
)

// Errors that callers tell apart.
var (
	// ErrNotFound: there is no such row.
	ErrNotFound = errors.New("not found")
	// ErrReplayed: the proof was used before.
	ErrReplayed = errors.New("the proof was used before")
	// ErrBadCursor: a cursor that this store did not give out for this filter.
	ErrBadCursor = errors.New("the cursor is not valid")
)

// Version orders the changes that a policy shows: by epoch first, then by
// number. A restored server starts a new epoch.
type Version struct {
	Epoch  int64 `json:"epoch"`
	Number int64 `json:"number"`
}

// Roles and kinds of holder, as in the API.
const (
	RoleReceiver = "receiver"
	RoleSender   = "sender"
	KindCluster  = "cluster"
	KindOperator = "operator"
)

// States of an entry. A superseded leaf is good until it ends, a revoked one
// stays revoked after its end.
const (
	StateValid      = "valid"
	StateSuperseded = "superseded"
	StateRevoked    = "revoked"
	StateEnded      = "ended"
)

// Entry is one leaf of the ledger. Times are whole seconds UTC; serial, issuer
// and SPKI are lower-case hex. A leaf is good up to and including NotAfter.
type Entry struct {
	OperatorID   string     `json:"operatorId"`
	Sequence     int64      `json:"-"` // of its issued event
	Serial       string     `json:"serial"`
	Holder       string     `json:"holder"` // the whole name, for a receiver the operator id
	HolderID     string     `json:"-"`
	Kind         string     `json:"kind"`
	Role         string     `json:"role"`
	Issuer       string     `json:"issuer"` // subject key id of the CA
	Parent       string     `json:"parent"` // serial it was renewed from, "" after enrolment
	NotBefore    time.Time  `json:"notBefore"`
	NotAfter     time.Time  `json:"notAfter"`
	RenewAfter   time.Time  `json:"renewAfter"`
	RenewBy      time.Time  `json:"renewBy"`
	SPKI         string     `json:"spkiSha256"`
	RequestedBy  string     `json:"requestedBy"`
	IssuedAt     time.Time  `json:"issuedAt"`
	State        string     `json:"state"`
	RevokedAt    *time.Time `json:"revokedAt"`
	RevokeReason string     `json:"revokeReason"`
}

// Filter chooses entries. Empty fields do not restrict; OrgID restricts to the
// operators of one organisation, deleted ones included.
//
// Order, always within each operator: with Newest by holder and role; else with
// Holder the latest end first within each role; else with EndsBefore the soonest
// end first; else the last issued first.
type Filter struct {
	OperatorID string
	OrgID      string
	Holder     string
	Role       string
	State      string
	EndsBefore time.Time
	Newest     bool // only the newest entry of each operator, holder and role
	Cursor     string
	Limit      int // 1 to 500; 0 means 100
}

// Revoked is one revoked leaf that has not ended.
type Revoked struct {
	Serial    string
	RevokedAt time.Time
	NotAfter  time.Time
	Reason    string
}

// Event is one line of an operator's hash chain: Hash, lower-case hex, is the
// SHA-256 of the previous hash (32 zero bytes first) and the RFC 8785 form of
// Event.
type Event struct {
	Event json.RawMessage `json:"event"`
	Hash  string          `json:"hash"`
}

// Head is the end of an operator's hash chain; Sequence is 0 while it is empty.
type Head struct {
	OperatorID string `json:"operatorId"`
	Sequence   int64  `json:"sequence"`
	Hash       string `json:"hash"`
}

// Types of event.
const (
	EventCACreated = "ca_created"
	EventIssued    = "issued"
	EventRevoked   = "revoked"
	EventHeld      = "held"
	EventRestored  = "restored"
	EventCAErased  = "ca_erased"
	EventPruned    = "pruned"
	EventEpoch     = "epoch"
)

// Refusal says why Issue or CheckProof refused, in the words of the API.
type Refusal struct {
	Reason string
	Detail string // may be empty: the reason says it all
}

// Error makes a refusal an error.
func (r *Refusal) Error() string {
	if r.Detail == "" {
		return r.Reason
	}
	return r.Reason + ": " + r.Detail
}

// Proof is a holder proof whose shape, signatures and clock are already checked.
type Proof struct {
	OperatorID string // of the CA that signed the leaf
	Serial     string
	SPKI       string // SHA-256 of the leaf's public key, lower-case hex
	JTI        string
	Expires    time.Time
}

// IssueRequest asks for one leaf: by an enrolment token or by a proof of holding
// the leaf to renew, exactly one of the two.
type IssueRequest struct {
	TokenHash []byte // SHA-256 of the token
	Proof     *Proof
	SPKI      string        // SHA-256 of the new public key, lower-case hex
	Lifetime  time.Duration // L; the leaf ends no later than its CA
	RequestID string
	Address   string
	// Meanwhile, unless it is nil, is called once the entry is written, beside the
	// commit that makes it durable, so that a signature costs no time of its own. What
	// it makes must not leave before Issue has returned nil.
	Meanwhile func(Issuance) error
}

// Issuance is a recorded leaf with what it takes to sign it.
type Issuance struct {
	Entry    Entry
	CACert   []byte // DER
	CAKey    []byte // sealed
	Repeated bool   // the same key was answered before; nothing was written
}
