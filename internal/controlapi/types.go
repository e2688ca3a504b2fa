// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package controlapi

import "time"

// Role of a leaf: what its holder does with it.
type Role string

// Roles. A receiver's leaf has serverAuth, a sender's clientAuth, never both.
const (
	RoleReceiver Role = "receiver"
	RoleSender   Role = "sender"
)

// Kind says what a holder is.
type Kind string

// Kinds of holder. A receiver is always an operator.
const (
	KindCluster  Kind = "cluster"
	KindOperator Kind = "operator"
)

// EnrollRequest is the body of RouteEnroll.
type EnrollRequest struct {
	Token string `json:"token"`
	CSR   string `json:"csr" maxLength:"16384" doc:"One PEM block CERTIFICATE REQUEST with a P-256 key. Only its key counts."`
}

// RenewRequest is the body of RouteRenew.
type RenewRequest struct {
	CSR string `json:"csr" maxLength:"16384" doc:"One PEM block CERTIFICATE REQUEST with a new P-256 key. Only its key counts."`
}

// Certificate answers an enrolment or a renewal. Certificate and CA are one PEM
// block each; Serial is lower-case hex of even length.
type Certificate struct {
	Certificate string    `json:"certificate"`
	CA          string    `json:"ca"`
	Serial      string    `json:"serial"`
	Role        Role      `json:"role"`
	Name        string    `json:"name"`
	NotBefore   time.Time `json:"notBefore"`
	NotAfter    time.Time `json:"notAfter"`
	RenewAfter  time.Time `json:"renewAfter"`
	RenewBy     time.Time `json:"renewBy"`
}

// Version orders policies: by epoch first, then by number.
type Version struct {
	Epoch  int64 `json:"epoch"`
	Number int64 `json:"number"`
}

// Less reports whether v is older than w.
func (v Version) Less(w Version) bool {
	return v.Epoch < w.Epoch || v.Epoch == w.Epoch && v.Number < w.Number
}

// PolicyMode says what a policy does with everyone it does not name.
type PolicyMode string

// Policy modes.
const (
	PolicyEnforce PolicyMode = "enforce"
	PolicyDenyAll PolicyMode = "deny_all"
)

// SenderState is the standing of one sender in a policy.
type SenderState string

// Sender states.
const (
	SenderAllowed SenderState = "allowed"
	SenderHeld    SenderState = "held"
	SenderRevoked SenderState = "revoked"
)

// Policy is the payload of an operator's signed sender policy
// (JWS, typ PolicyJWSType, ES256 by the operator's CA).
type Policy struct {
	OperatorID string `json:"operatorId"`
	Version
	IssuedAt       time.Time      `json:"issuedAt"`
	Mode           PolicyMode     `json:"mode"`
	Operator       PolicyOperator `json:"operator"`
	Senders        []PolicySender `json:"senders"`
	RevokedSerials []string       `json:"revokedSerials"`
	CRL            string         `json:"crl"`
}

// PolicyJWSType is the typ header of a signed policy.
const PolicyJWSType = "ikhnos-policy"

// PolicyOperator is what the operator is called.
type PolicyOperator struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels"`
}

// PolicySender is one sender of a policy. ClusterID is set for a cluster,
// OperatorID and OperatorName for an operator; Vouches lists the origins whose
// data an operator may relay.
type PolicySender struct {
	Name         string            `json:"name"`
	URI          string            `json:"uri"`
	Kind         Kind              `json:"kind"`
	OrgID        string            `json:"orgId"`
	ClusterID    string            `json:"clusterId,omitempty"`
	OperatorID   string            `json:"operatorId,omitempty"`
	OperatorName string            `json:"operatorName,omitempty"`
	Labels       map[string]string `json:"labels"`
	Tenant       *Tenant           `json:"tenant,omitempty"`
	State        SenderState       `json:"state"`
	Since        Version           `json:"since"`
	Vouches      []Vouch           `json:"vouches"`
	Replaced     *Replaced         `json:"replaced,omitempty"`
}

// Tenant is the account and project a store files a cluster's data under.
type Tenant struct {
	Account uint32 `json:"account"`
	Project uint32 `json:"project"`
}

// Vouch is one origin that an operator may relay.
type Vouch struct {
	OrgID     string            `json:"orgId"`
	ClusterID string            `json:"clusterId"`
	Labels    map[string]string `json:"labels"`
}

// Replaced lists leaves of a rekeyed sender, good until the first request with a
// newer leaf and at most until Until.
type Replaced struct {
	Serials []string  `json:"serials"`
	Until   time.Time `json:"until"`
}

// Report is what an operator instance tells of its policy and its senders:
// names, times and request counts since StartedAt, never content.
type Report struct {
	Instance       string         `json:"instance" minLength:"1" maxLength:"253"`
	Version        string         `json:"version"`
	StartedAt      time.Time      `json:"startedAt"`
	Policy         ReportPolicy   `json:"policy"`
	ReceiverSerial string         `json:"receiverSerial"`
	ClockOffsetMs  int64          `json:"clockOffsetMs" doc:"The server's time minus the instance's."`
	Senders        []ReportSender `json:"senders"`
	Denied         *ReportDenied  `json:"denied,omitempty"`
}

// ReportPolicy is the version an instance enforces, and since when.
type ReportPolicy struct {
	Version
	AppliedAt   time.Time `json:"appliedAt"`
	AppliedAtMs int64     `json:"appliedAtMs,omitempty"`
}

// ReportSender is one sender as an instance saw it. FirstRefusedAtMs is the
// first refusal under the reported policy number, 0 when there was none.
type ReportSender struct {
	Name             string           `json:"name"`
	Serial           string           `json:"serial,omitempty"`
	LastAcceptedAt   *time.Time       `json:"lastAcceptedAt,omitempty"`
	LastAcceptedAtMs int64            `json:"lastAcceptedAtMs,omitempty"`
	FirstRefusedAtMs int64            `json:"firstRefusedAtMs,omitempty"`
	Accepted         SignalCounts     `json:"accepted"`
	Refused          map[string]int64 `json:"refused,omitempty"`
}

// SignalCounts counts requests by signal.
type SignalCounts struct {
	Traces  int64 `json:"traces"`
	Metrics int64 `json:"metrics"`
	Logs    int64 `json:"logs"`
}

// ReportDenied carries the denials an instance remembers across a new epoch.
type ReportDenied struct {
	Names   []string `json:"names"`
	Serials []string `json:"serials"`
}

// Heartbeat is the body a collector posts to RouteHeartbeat.
type Heartbeat struct {
	Version      string                 `json:"version"`
	Instance     string                 `json:"instance"`
	StartedAt    time.Time              `json:"startedAt"`
	Status       HealthStatus           `json:"status"`
	Certificates []HeartbeatCertificate `json:"certificates"`
	Policy       *Version               `json:"policy"`
}

// HealthStatus is the collector's own opinion of its components.
type HealthStatus string

// Health states, worst last.
const (
	HealthOK               HealthStatus = "ok"
	HealthRecoverableError HealthStatus = "recoverable_error"
	HealthPermanentError   HealthStatus = "permanent_error"
)

// HeartbeatCertificate is the state of one certificate the collector holds.
type HeartbeatCertificate struct {
	Name     string           `json:"name"`
	Serial   string           `json:"serial"`
	NotAfter time.Time        `json:"notAfter"`
	State    CertificateState `json:"state"`
}

// CertificateState is the standing of a certificate with its holder.
type CertificateState string

// Certificate states.
const (
	CertificateUsable  CertificateState = "usable"
	CertificateOverdue CertificateState = "overdue"
	CertificateRefused CertificateState = "refused"
	CertificateExpired CertificateState = "expired"
)

// Receipt answers a revocation and shows where it has bitten.
type Receipt struct {
	ReceiptID     string            `json:"receiptId"`
	CommittedAt   time.Time         `json:"committedAt"`
	CommittedAtMs int64             `json:"committedAtMs"`
	Number        int64             `json:"number"`
	Instances     []ReceiptInstance `json:"instances"`
}

// ReceiptState says whether an instance enforces a revocation.
type ReceiptState string

// Receipt states.
const (
	ReceiptConfirmed   ReceiptState = "confirmed"
	ReceiptPending     ReceiptState = "pending"
	ReceiptUnreachable ReceiptState = "unreachable"
)

// ReceiptInstance is one operator instance of a receipt.
type ReceiptInstance struct {
	Operator         string       `json:"operator"`
	Instance         string       `json:"instance"`
	State            ReceiptState `json:"state"`
	AppliedAt        *time.Time   `json:"appliedAt,omitempty"`
	AppliedAtMs      int64        `json:"appliedAtMs,omitempty"`
	LastAcceptedAt   *time.Time   `json:"lastAcceptedAt,omitempty"`
	LastAcceptedAtMs int64        `json:"lastAcceptedAtMs,omitempty"`
	FirstRefusedAt   *time.Time   `json:"firstRefusedAt,omitempty"`
	FirstRefusedAtMs int64        `json:"firstRefusedAtMs,omitempty"`
}
