// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"strings"

	"github.com/ikhnos/continuum/internal/controlapi"
)

// Names of the attributes that an authenticated sender offers to any component
// through client.AuthData. A label is AttrLabelPrefix followed by its name.
const (
	AttrName         = "sender.name"
	AttrKind         = "sender.kind"
	AttrOrgID        = "sender.org_id"
	AttrClusterID    = "sender.cluster_id"
	AttrOperatorID   = "sender.operator_id"
	AttrOperatorName = "sender.operator_name"
	AttrSerial       = "sender.serial"
	AttrLabelPrefix  = "sender.label."
)

// Sender is one allowed sender as the policy describes it. It is immutable once
// it is part of a policy that is in force, so it may be shared by all requests.
type Sender struct {
	Name         string
	Kind         controlapi.Kind
	OrgID        string
	ClusterID    string // of a cluster
	OperatorID   string // of an operator
	OperatorName string // of an operator
	Labels       map[string]string
	Vouches      []controlapi.Vouch // of an operator: the origins it may relay
}

// AuthData is the authenticated sender of one request. It implements
// client.AuthData of the collector without importing it.
type AuthData struct {
	Sender *Sender
	Serial string // lower-case hex of the leaf that the request came with
}

// GetAttribute returns one attribute, nil when the sender does not have it.
func (d *AuthData) GetAttribute(name string) any {
	value := ""
	switch name {
	case AttrName:
		value = d.Sender.Name
	case AttrKind:
		value = string(d.Sender.Kind)
	case AttrOrgID:
		value = d.Sender.OrgID
	case AttrClusterID:
		value = d.Sender.ClusterID
	case AttrOperatorID:
		value = d.Sender.OperatorID
	case AttrOperatorName:
		value = d.Sender.OperatorName
	case AttrSerial:
		value = d.Serial
	default:
		if label, ok := strings.CutPrefix(name, AttrLabelPrefix); ok {
			value = d.Sender.Labels[label]
		}
	}
	if value == "" {
		return nil
	}
	return value
}

// GetAttributeNames lists the attributes that are set.
func (d *AuthData) GetAttributeNames() []string {
	var names []string
	for _, name := range []string{AttrName, AttrKind, AttrOrgID, AttrClusterID, AttrOperatorID, AttrOperatorName, AttrSerial} {
		if d.GetAttribute(name) != nil {
			names = append(names, name)
		}
	}
	for label := range d.Sender.Labels {
		names = append(names, AttrLabelPrefix+label)
	}
	return names
}
