// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// Document is a file of a fleet.
type Document struct {
	Clusters  []ClusterEntry  `json:"clusters" yaml:"clusters"`
	Operators []OperatorEntry `json:"operators" yaml:"operators"`
	Senders   []SenderEntry   `json:"senders" yaml:"senders"`

	// Revoked are the ids of what was left out because it is revoked.
	Revoked []string `json:"-" yaml:"-"`
}

// ClusterEntry is a cluster as a file declares it.
type ClusterEntry struct {
	ID          string            `json:"id" yaml:"id"`
	Kind        string            `json:"kind" yaml:"kind"`
	Labels      map[string]string `json:"labels,omitempty" yaml:"labels,omitempty"`
	Tenant      string            `json:"tenant,omitempty" yaml:"tenant,omitempty"`
	SilentAfter string            `json:"silentAfter" yaml:"silentAfter"`
	Approve     bool              `json:"approve" yaml:"approve"`
}

// OperatorEntry is an operator as a file declares it.
type OperatorEntry struct {
	ID          string            `json:"id" yaml:"id"`
	Name        string            `json:"name" yaml:"name"`
	Role        string            `json:"role" yaml:"role"`
	Destination string            `json:"destination,omitempty" yaml:"destination,omitempty"`
	Labels      map[string]string `json:"labels,omitempty" yaml:"labels,omitempty"`
	Exposure    string            `json:"exposure" yaml:"exposure"`
	Heartbeat   string            `json:"heartbeat" yaml:"heartbeat"`
	Address     string            `json:"address,omitempty" yaml:"address,omitempty"`
}

// SenderEntry is a connection as a file declares it.
type SenderEntry struct {
	ID       string `json:"id" yaml:"id"`
	Operator string `json:"operator" yaml:"operator"`
	Address  string `json:"address,omitempty" yaml:"address,omitempty"`
}

// Export is the file that declares what a server has, in the server's order. What
// is revoked is not declared.
func Export(state State) *Document {
	d := &Document{Clusters: []ClusterEntry{}, Operators: []OperatorEntry{}, Senders: []SenderEntry{}}
	active := map[string]bool{}
	for i := range state.Clusters {
		c := &state.Clusters[i]
		if c.State == operators.ClusterRevoked {
			d.Revoked = append(d.Revoked, c.ID)
			continue
		}
		active[c.ID] = true
		d.Clusters = append(d.Clusters, ClusterEntry{
			ID: c.ID, Kind: string(c.Kind), Labels: c.Labels, Tenant: clusterWords(c)["tenant"],
			SilentAfter: c.SilentAfter, Approve: c.State == operators.ClusterApproved,
		})
	}
	for i := range state.Operators {
		o := &state.Operators[i]
		if o.State != operators.OperatorActive {
			d.Revoked = append(d.Revoked, o.ID)
			continue
		}
		active[o.ID] = true
		d.Operators = append(d.Operators, OperatorEntry{
			ID: o.ID, Name: o.Name, Role: string(o.Role), Destination: destinationText(o.Destination), Labels: o.Labels,
			Exposure: string(o.Exposure), Heartbeat: string(o.Heartbeat), Address: o.Address,
		})
	}
	for i := range state.Senders {
		s := &state.Senders[i]
		switch {
		case !active[s.OperatorID] || !active[s.HolderID]:
		case s.State == controlapi.SenderRevoked:
			d.Revoked = append(d.Revoked, s.HolderID+" → "+s.OperatorID)
		case s.Kind == controlapi.KindCluster || s.Address != "":
			d.Senders = append(d.Senders, SenderEntry{s.HolderID, s.OperatorID, s.Address})
		}
	}
	return d
}

// YAML is the document as a file.
func (d *Document) YAML() ([]byte, error) {
	var out bytes.Buffer
	for _, name := range d.Revoked {
		_, _ = fmt.Fprintf(&out, "# revoked, so not declared: %s\n", name)
	}
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(d); err != nil {
		return nil, fmt.Errorf("writing yaml: %w", err)
	}
	return out.Bytes(), encoder.Close()
}
