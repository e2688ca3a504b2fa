// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"maps"
	"slices"
	"strings"

	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// centralFirst orders the declared operators so that a destination comes before
// those who send to it.
func (p *planner) centralFirst() []int {
	var central, regional []int
	for i := range p.Operators {
		if p.Operators[i].Role == operators.RoleCentral {
			central = append(central, i)
		} else {
			regional = append(regional, i)
		}
	}
	return append(central, regional...)
}

func (p *planner) operator(o *Operator) {
	old, exists := p.operators[o.ID]
	if !exists {
		p.newOperator(o)
		return
	}
	if old.State != operators.OperatorActive {
		p.add(Change{Action: Conflict, Kind: "operator", Name: o.ID,
			What: "is revoked, which is for good; declare it under another id and take this one out of the file"})
		return
	}
	fixed := differences("", fixedWords(&old), fixedWords(&o.Operator))
	fixed = append(fixed, differences("labels.", old.Labels, o.Labels)...)
	if old.Heartbeat == operators.SwitchOn && o.Heartbeat == operators.SwitchOff {
		fixed = append(fixed, "heartbeat: on → off")
	}
	if len(fixed) > 0 {
		p.add(Change{Action: Conflict, Kind: "operator", Name: o.ID, What: strings.Join(fixed, ", ") +
			" cannot be changed; declare a new operator under another id, then: ikhnos operator retire " + o.ID})
		return
	}
	folder := p.folders[o.ID]
	change := &OperatorChange{ID: o.ID, Heartbeat: folder.Heartbeat, Install: folder.Install}
	var what []string
	if o.Address != nil && *o.Address != old.Address {
		change.Address = o.Address
		what = append(what, "address: "+orNone(old.Address)+" → "+orNone(*o.Address))
	}
	if o.Heartbeat == operators.SwitchOn && old.Heartbeat != operators.SwitchOn {
		change.Heartbeat = true
		what = append(what, "heartbeat: off → on, new secret")
	}
	p.updateFolder("operator", o.ID, what, folder, Change{Operator: change})
}

// fixedWords are what of an operator never changes.
func fixedWords(o *operators.Operator) map[string]string {
	return map[string]string{"name": o.Name, "role": string(o.Role), "destination": destinationText(o.Destination), "exposure": string(o.Exposure)}
}

func destinationText(d *operators.Destination) string {
	if d == nil {
		return ""
	}
	return d.OperatorID + d.Endpoint
}

func (p *planner) newOperator(o *Operator) {
	if d := o.Destination; d != nil && d.OperatorID != "" {
		switch {
		case d.OperatorID == o.ID:
			p.wrong(o.place, "destination", "an operator does not send to itself")
			return
		case o.Role == operators.RoleCentral:
			p.wrong(o.place, "destination", "a central operator does not send to another operator")
			return
		case !p.isCentral(d.OperatorID):
			p.wrong(o.place, "destination", "%s is no central operator, neither in the file nor on the server", d.OperatorID)
			return
		}
	}
	what := "create, " + string(o.Role)
	if o.Destination != nil {
		what += ", sends to " + destinationText(o.Destination)
	}
	change := &OperatorChange{ID: o.ID, Create: &operators.OperatorRequest{
		Name: o.Name, Role: o.Role, Destination: o.Destination, Labels: o.Labels, Exposure: o.Exposure, Heartbeat: o.Heartbeat,
	}}
	if o.Address != nil && *o.Address != "" {
		change.Address = o.Address
		what += ", at " + *o.Address
	}
	p.add(Change{Action: Add, Kind: "operator", Name: o.ID, What: what, Operator: change})
}

// isCentral reports whether id is, or will be, an active central operator.
func (p *planner) isCentral(id string) bool {
	if o, ok := p.operators[id]; ok {
		return o.State == operators.OperatorActive && o.Role == operators.RoleCentral
	}
	o := p.declaredOperator(id)
	return o != nil && o.Role == operators.RoleCentral
}

func (p *planner) declaredOperator(id string) *Operator {
	for i := range p.Operators {
		if p.Operators[i].ID == id {
			return &p.Operators[i]
		}
	}
	return nil
}

func (p *planner) undeclaredOperators() {
	if !p.HasOperators {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(p.operators)) {
		if p.declaredOperator(id) == nil && p.operators[id].State == operators.OperatorActive {
			p.add(Change{Action: Keep, Kind: "operator", Name: id, What: "not in the file; kept (ikhnos operator retire " + id + " shows how it leaves)"})
		}
	}
}

func (p *planner) sender(s *Sender) {
	name := s.HolderID + " → " + s.OperatorID
	if !p.senderFits(s) {
		return
	}
	old, exists := p.senders[[2]string{s.OperatorID, s.HolderID}]
	folder := p.folders[old.Name]
	change := &SenderChange{OperatorID: s.OperatorID, HolderID: s.HolderID, Address: old.Address, Install: folder.Install}
	var what []string
	if s.Address != nil && *s.Address != old.Address {
		change.Address = *s.Address
		what = []string{"address: " + orNone(old.Address) + " → " + orNone(*s.Address)}
	}
	switch {
	case exists && old.State == controlapi.SenderRevoked:
		p.add(Change{Action: Conflict, Kind: "sender", Name: name, What: "is revoked; take it out of the file, or let it in again: ikhnos sender restore " +
			s.HolderID + " --operator " + s.OperatorID})
	case !exists && !isOperatorID(s.HolderID):
		change.Install = true
		p.add(Change{Action: Add, Kind: "sender", Name: name, What: "connect", Sender: change})
	default:
		p.updateFolder("sender", name, what, folder, Change{Sender: change}) // an operator is connected with its creation
	}
}

func isOperatorID(id string) bool { return strings.HasPrefix(id, "op-") }

// senderFits reports whether both ends of a connection are, or will be, there and
// ready for it.
func (p *planner) senderFits(s *Sender) bool {
	before := len(p.faults)
	to, exists := p.operators[s.OperatorID]
	if !exists && p.declaredOperator(s.OperatorID) == nil {
		p.wrong(s.place, "operator", "there is no operator %s, neither in the file nor on the server", s.OperatorID)
	} else if exists && to.State != operators.OperatorActive {
		p.wrong(s.place, "operator", "%s is revoked", s.OperatorID)
	}
	if isOperatorID(s.HolderID) {
		p.operatorFits(s)
	} else {
		p.clusterFits(s)
	}
	return len(p.faults) == before
}

// operatorFits: operators are connected to their destination, and nowhere else.
func (p *planner) operatorFits(s *Sender) {
	destination := p.operators[s.HolderID].Destination
	if o := p.declaredOperator(s.HolderID); o != nil {
		destination = o.Destination
	}
	if p.senderState(s.OperatorID, s.HolderID) == "" && (destination == nil || destination.OperatorID != s.OperatorID) {
		p.wrong(s.place, "id", "%s does not send to %s: an operator sends to its destination alone", s.HolderID, s.OperatorID)
	}
}

func (p *planner) clusterFits(s *Sender) {
	if c, ok := p.clusters[s.HolderID]; ok && c.State != operators.ClusterPending {
		return // approved, or revoked, which is a conflict of its own
	}
	for i := range p.Clusters {
		if c := &p.Clusters[i]; c.ID == s.HolderID {
			if !c.Approve {
				p.wrong(s.place, "id", "%s is not approved: its entry needs approve: true", s.HolderID)
			}
			return
		}
	}
	if _, ok := p.clusters[s.HolderID]; ok {
		p.wrong(s.place, "id", "%s is not approved yet: ikhnos cluster approve %s", s.HolderID, s.HolderID)
		return
	}
	p.wrong(s.place, "id", "there is no cluster %s, neither in the file nor on the server", s.HolderID)
}

func (p *planner) undeclaredSenders() {
	if !p.HasSenders {
		return
	}
	declared := map[[2]string]bool{}
	for i := range p.Senders {
		declared[[2]string{p.Senders[i].OperatorID, p.Senders[i].HolderID}] = true
	}
	keys := slices.SortedFunc(maps.Keys(p.senders), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	for _, key := range keys {
		s := p.senders[key]
		if declared[key] || s.State == controlapi.SenderRevoked || s.Kind != controlapi.KindCluster ||
			p.operators[s.OperatorID].State != operators.OperatorActive || p.goes(s.HolderID) {
			continue
		}
		name := s.HolderID + " → " + s.OperatorID
		if p.prune {
			p.add(Change{Action: Revoke, Kind: "sender", Name: name, What: "not in the file; cut off",
				Sender: &SenderChange{OperatorID: s.OperatorID, HolderID: s.HolderID, Revoke: true}})
		} else {
			p.add(Change{Action: Keep, Kind: "sender", Name: name, What: "not in the file; kept (--prune revoke would cut it off)"})
		}
	}
}

// goes reports whether a line on the whole cluster says it already.
func (p *planner) goes(clusterID string) bool {
	return p.HasClusters && slices.ContainsFunc(p.plan.Changes, func(c Change) bool {
		return c.Kind == "cluster" && c.Name == clusterID && (c.Action == Revoke || c.Action == Keep)
	})
}
