// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package operators

import (
	"time"

	"github.com/ikhnos/continuum/internal/controlapi"
)

// Org is an organisation. AdminToken is set only in the answer to its creation.
type Org struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	AdminToken string `json:"adminToken,omitempty"`
}

// OrgRequest creates an organisation.
type OrgRequest struct {
	ID   string `json:"id" maxLength:"31"`
	Name string `json:"name" maxLength:"63"`
}

// ClusterKind says what a source of telemetry is.
type ClusterKind string

// Kinds of cluster.
const (
	ClusterKubernetes ClusterKind = "kubernetes"
	ClusterHost       ClusterKind = "host"
)

// ClusterState is the standing of a cluster in its organisation.
type ClusterState string

// Cluster states. clusterDeleted never leaves the package: the row of a deleted
// cluster keeps its labels for the data of it that is still on its way.
const (
	ClusterPending  ClusterState = "pending"
	ClusterApproved ClusterState = "approved"
	ClusterRevoked  ClusterState = "revoked"
	clusterDeleted  ClusterState = "deleted"
)

// Cluster is a source of telemetry. SilentAfter is a duration such as "90s"
// after which a sender that was heard counts as silent.
type Cluster struct {
	ID          string             `json:"id"`
	Kind        ClusterKind        `json:"kind"`
	Labels      map[string]string  `json:"labels"`
	Tenant      *controlapi.Tenant `json:"tenant,omitempty"`
	SilentAfter string             `json:"silentAfter"`
	State       ClusterState       `json:"state"`
	CreatedAt   time.Time          `json:"createdAt"`
	CreatedBy   string             `json:"createdBy"`
	ApprovedAt  *time.Time         `json:"approvedAt,omitempty"`
	ApprovedBy  string             `json:"approvedBy,omitempty"`
}

// ClusterRequest registers a cluster or changes one. ID is taken from the path of
// a PUT. An empty Kind is kubernetes, an empty SilentAfter "5m".
type ClusterRequest struct {
	ID          string             `json:"id,omitempty" maxLength:"31" doc:"A lower-case DNS label that does not start with op-; taken from the path of a PUT."`
	Kind        ClusterKind        `json:"kind,omitempty" doc:"kubernetes when absent."`
	Labels      map[string]string  `json:"labels,omitempty" maxProperties:"8"`
	Tenant      *controlapi.Tenant `json:"tenant,omitempty"`
	SilentAfter string             `json:"silentAfter,omitempty" doc:"A duration from 1s to 720h; 5m when absent."`
}

// OperatorRole is where an operator stands.
type OperatorRole string

// Roles of an operator.
const (
	RoleRegional OperatorRole = "regional"
	RoleCentral  OperatorRole = "central"
)

// OperatorState is the standing of an operator.
type OperatorState string

// Operator states. operatorDeleted never leaves the package: the row stays as a
// tombstone, because an id is never used again.
const (
	OperatorActive  OperatorState = "active"
	OperatorRevoked OperatorState = "revoked"
	operatorDeleted OperatorState = "deleted"
)

// Exposure is how far an operator's Service reaches.
type Exposure string

// Exposures.
const (
	ExposureCluster      Exposure = "cluster"
	ExposureNodePort     Exposure = "node_port"
	ExposureLoadBalancer Exposure = "load_balancer"
)

// Switch is an enum that may grow beyond off and on.
type Switch string

// Settings of a switch.
const (
	SwitchOff Switch = "off"
	SwitchOn  Switch = "on"
)

// KeySource says where the keys of an installation come from.
type KeySource string

// Sources of keys. Printed ones are made by the server for a cluster that cannot
// reach it, and shown once.
const (
	KeysEnrolled KeySource = "enrolled"
	KeysPrinted  KeySource = "printed"
)

// DestinationKind says what an operator sends to.
type DestinationKind string

// Kinds of destination.
const (
	DestinationOTLP     DestinationKind = "otlp"
	DestinationOperator DestinationKind = "operator"
)

// Destination is what an operator sends to: an OTLP endpoint (host:port) or a
// central operator of the same organisation.
type Destination struct {
	Kind       DestinationKind `json:"kind"`
	Endpoint   string          `json:"endpoint,omitempty" doc:"host:port, with kind otlp alone."`
	OperatorID string          `json:"operatorId,omitempty" doc:"A central operator of the same organisation, with kind operator alone."`
}

// Values of Operator that have one value today.
const (
	// ScopeOperator is the clientCaScope of an operator with a CA of its own.
	ScopeOperator = "operator"
	// AuthMTLS is the receiverAuth of an operator that demands a certificate.
	AuthMTLS = "mtls"
)

// Operator is an aggregating collector with its own CA. Address is the host:port
// at which senders elsewhere dial it, empty until one was recorded. Health, Status,
// Certificates and Reported are filled by whoever knows them; Warnings only in the answer to
// a creation.
type Operator struct {
	ID               string               `json:"id"`
	Name             string               `json:"name"`
	Role             OperatorRole         `json:"role"`
	Destination      *Destination         `json:"destination,omitempty"`
	Labels           map[string]string    `json:"labels"`
	SourceClusterIDs []string             `json:"sourceClusterIds"`
	Address          string               `json:"address"`
	Exposure         Exposure             `json:"exposure"`
	Heartbeat        Switch               `json:"heartbeat"`
	State            OperatorState        `json:"state"`
	ClientCAScope    string               `json:"clientCaScope"`
	ReceiverAuth     string               `json:"receiverAuth"`
	CreatedAt        time.Time            `json:"createdAt"`
	RevokedAt        *time.Time           `json:"revokedAt,omitempty"`
	Health           *Health              `json:"health,omitempty"`
	Status           string               `json:"status,omitempty"` // one word for all of it
	Certificates     *CertificateStanding `json:"certificates,omitempty"`
	// Reported is what its last heartbeat said of itself.
	Reported *controlapi.Heartbeat `json:"reported,omitempty"`
	Warnings []string              `json:"warnings,omitempty"`

	// HeartbeatMinted says that a heartbeat secret exists.
	HeartbeatMinted bool `json:"-"`
}

// Health is computed when an operator is read and never stored: state online,
// offline or unknown (HS-1 to HS-5).
type Health struct {
	State      string     `json:"state"`
	LastSeenAt *time.Time `json:"lastSeenAt,omitempty"`
	Reporting  bool       `json:"reporting"`
}

// CertificateWord says how certificates stand.
type CertificateWord string

// Words for certificates (ST-1): renewal fails after renewBy without a newer
// leaf, or when the last attempt was refused.
const (
	CertificateNone           CertificateWord = "none"
	CertificateOK             CertificateWord = "ok"
	CertificateRenewalFailing CertificateWord = "renewal_failing"
	CertificateExpired        CertificateWord = "expired"
)

// CertificateStanding is computed when an operator is read: the worst word of its
// receiver's leaf and of the newest leaves of its configured senders, and of those
// the soonest end (ST-1 to ST-4). A date is absent when there is no leaf.
type CertificateStanding struct {
	State            CertificateWord `json:"state"`
	ReceiverNotAfter *time.Time      `json:"receiverNotAfter,omitempty"`
	ReceiverRenewBy  *time.Time      `json:"receiverRenewBy,omitempty"`
	SendersNotAfter  *time.Time      `json:"sendersNotAfter,omitempty"`
}

// OperatorRequest creates an operator. ID is optional in a POST and taken from
// the path of a PUT. An empty Role is regional, an empty Heartbeat off, an empty
// Exposure cluster.
type OperatorRequest struct {
	ID               string            `json:"id,omitempty" maxLength:"24" doc:"A lower-case DNS label that starts with op-; made from the name when absent, taken from the path of a PUT."`
	Name             string            `json:"name" maxLength:"63"`
	Role             OperatorRole      `json:"role,omitempty" doc:"regional when absent."`
	Destination      *Destination      `json:"destination,omitempty"`
	Labels           map[string]string `json:"labels,omitempty" maxProperties:"8"`
	SourceClusterIDs []string          `json:"sourceClusterIds,omitempty" doc:"Approved clusters that are connected at once."`
	Heartbeat        Switch            `json:"heartbeat,omitempty" doc:"off when absent."`
	Exposure         Exposure          `json:"exposure,omitempty" doc:"cluster when absent."`
}

// AddressRequest records where senders elsewhere dial an operator: host[:port],
// the port 4317 when left out. An empty address forgets it.
type AddressRequest struct {
	Address string `json:"address"`
}

// Removal answers the revocation or deletion of an operator: the receipt and the
// command that takes the receiver off its cluster.
type Removal struct {
	controlapi.Receipt
	Uninstall string `json:"uninstall"`
}
