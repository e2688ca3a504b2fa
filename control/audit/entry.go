// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package audit

// Entry is one line of the audit trail. The store adds its time and its place in
// the sequence.
type Entry struct {
	OrgID     string         // organisation of the object, "" for the server itself
	Actor     string         // name of the admin token, holder name, or "server"
	Event     string         // one of the names below
	Object    string         // id of what changed, never a secret
	Detail    map[string]any // plain JSON values
	RequestID string
	Address   string // of the caller, without port
}

// ActorServer is the actor of what the server does on its own.
const ActorServer = "server"

// Organisations, people and machines.
const (
	OrganisationCreated = "organisation-created"
	AdminTokenCreated   = "admin-token-created"
	AdminTokenRevoked   = "admin-token-revoked"
	SessionStarted      = "session-started"
	SessionEnded        = "session-ended"
)

// Clusters.
const (
	ClusterRegistered = "cluster-registered"
	ClusterApproved   = "cluster-approved"
	ClusterUpdated    = "cluster-updated"
	ClusterRevoked    = "cluster-revoked"
	ClusterDeleted    = "cluster-deleted"
)

// Operators.
const (
	OperatorCreated          = "operator-created"
	OperatorAddressChanged   = "operator-address-changed"
	OperatorHeartbeatEnabled = "operator-heartbeat-enabled"
	OperatorHeartbeatRotated = "operator-heartbeat-rotated"
	OperatorInstallReissued  = "operator-install-reissued"
	OperatorRevoked          = "operator-revoked"
	OperatorDeleted          = "operator-deleted"
)

// Senders and their enrolment tokens.
const (
	SenderConnected        = "sender-connected"
	SenderUpdated          = "sender-updated"
	SenderRevoked          = "sender-revoked"
	SenderHeld             = "sender-held"
	SenderRestored         = "sender-restored"
	SenderRekeyed          = "sender-rekeyed"
	SenderRekeyCompleted   = "sender-rekey-completed"
	EnrollmentTokenCreated = "enrollment-token-created"
	EnrollmentTokenRevoked = "enrollment-token-revoked"
	EnrollmentTokenReused  = "enrollment-token-reused" // a spent token came again with another key
)

// Certificates. OperatorClientCertReissued carries ca=operator.
const (
	OperatorCertificateIssued  = "operator-certificate-issued"
	OperatorCertificateRenewed = "operator-certificate-renewed"
	OperatorCertificateRevoked = "operator-certificate-revoked"
	OperatorCertificateAdopted = "operator-certificate-adopted"
	OperatorClientCertReissued = "operator-client-cert-reissued"
)

// The server itself.
const (
	ServerStarted     = "server-started"
	ServerStopped     = "server-stopped"
	PassphraseChanged = "passphrase-changed"
	BackupCreated     = "backup-created"
	BackupRestored    = "backup-restored"
	EpochStarted      = "epoch-started"
	LedgerPruned      = "ledger-pruned"
	DenialsRecovered  = "denials-recovered" // taken from the first report of a new epoch
)
