// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// State is what a server has of the organisation, and what folders of enrolment
// lack, by the name of a sender or an operator.
type State struct {
	Clusters  []operators.Cluster
	Operators []operators.Operator
	Senders   []operators.Sender
	Folders   map[string]Folder
}

// Folder is one that is not as it should be: why, for people, and whether to make it
// again, or the heartbeat secret in it.
type Folder struct {
	Why                string
	Install, Heartbeat bool
}

// Action is what a change does.
type Action string

// Actions, in the order in which a plan shows them by kind of object.
const (
	Add      Action = "add"
	Update   Action = "change"
	Revoke   Action = "revoke"
	Keep     Action = "keep"     // not in the file, and left alone
	Conflict Action = "conflict" // cannot be changed this way
)

// Signs are how a plan marks its actions.
var Signs = map[Action]string{Add: "+", Update: "~", Revoke: "-", Keep: "!", Conflict: "!"}

// Change is one line of a plan.
type Change struct {
	Action Action `json:"action"`
	Kind   string `json:"kind"` // cluster, operator, sender
	Name   string `json:"name"`
	What   string `json:"what"`

	// What to do; at most one is set.
	Cluster  *ClusterChange  `json:"-"`
	Operator *OperatorChange `json:"-"`
	Sender   *SenderChange   `json:"-"`
}

// Enrols reports whether somebody can enrol after the change.
func (c *Change) Enrols() bool {
	return c.Operator != nil && (c.Operator.Create != nil || c.Operator.Install) || c.Sender != nil && c.Sender.Install
}

// ClusterChange puts a cluster when Put is not nil, and then approves or revokes.
type ClusterChange struct {
	ID              string
	Put             *operators.ClusterRequest
	Approve, Revoke bool
}

// OperatorChange creates an operator when Create is not nil, records an address
// when that is not nil, turns heartbeats on with a new secret, and makes the folder
// of one that is there already.
type OperatorChange struct {
	ID                 string
	Create             *operators.OperatorRequest
	Address            *string
	Heartbeat, Install bool
}

// SenderChange connects a sender or changes the address it dials, or revokes it.
// Install makes its folder.
type SenderChange struct {
	OperatorID, HolderID, Address string
	Install, Revoke               bool
}

// Plan leads from what a server has to what files declare.
type Plan struct {
	Changes   []Change `json:"changes"`
	Unchanged int      `json:"unchanged"`
}

// Count is how many lines have one of the actions.
func (p *Plan) Count(actions ...Action) int {
	n := 0
	for i := range p.Changes {
		if slices.Contains(actions, p.Changes[i].Action) {
			n++
		}
	}
	return n
}

// planner makes a plan.
type planner struct {
	*Fleet
	prune     bool
	clusters  map[string]operators.Cluster
	operators map[string]operators.Operator
	senders   map[[2]string]operators.Sender
	folders   map[string]Folder
	plan      Plan
	faults    []Fault
}

// Plan compares the files with a server. With prune, clusters and senders that
// the server has and the files lack are revoked. Faults are what only a look at
// the server shows to be wrong with the files.
func (f *Fleet) Plan(state State, prune bool) (*Plan, []Fault) {
	p := &planner{
		Fleet: f, prune: prune, plan: Plan{Changes: []Change{}}, clusters: map[string]operators.Cluster{},
		operators: map[string]operators.Operator{}, senders: map[[2]string]operators.Sender{}, folders: state.Folders,
	}
	for _, c := range state.Clusters {
		p.clusters[c.ID] = c
	}
	for _, o := range state.Operators {
		p.operators[o.ID] = o
	}
	for _, s := range state.Senders {
		p.senders[[2]string{s.OperatorID, s.HolderID}] = s
	}
	for i := range f.Clusters {
		p.cluster(&f.Clusters[i])
	}
	p.undeclaredClusters()
	for _, i := range p.centralFirst() {
		p.operator(&f.Operators[i])
	}
	p.undeclaredOperators()
	for i := range f.Senders {
		p.sender(&f.Senders[i])
	}
	p.undeclaredSenders()
	return &p.plan, p.faults
}

func (p *planner) add(c Change) { p.plan.Changes = append(p.plan.Changes, c) }

func (p *planner) wrong(at place, field, format string, args ...any) {
	p.faults = append(p.faults, at.fault(field, fmt.Sprintf(format, args...)))
}

func (p *planner) cluster(c *Cluster) {
	request := &operators.ClusterRequest{Kind: c.Kind, Labels: c.Labels, Tenant: c.Tenant, SilentAfter: c.SilentAfter}
	old, exists := p.clusters[c.ID]
	switch {
	case !exists:
		what := "register"
		if c.Approve {
			what += ", approve"
		}
		p.add(Change{Action: Add, Kind: "cluster", Name: c.ID, What: what, Cluster: &ClusterChange{ID: c.ID, Put: request, Approve: c.Approve}})
		return
	case old.State == operators.ClusterRevoked:
		p.add(Change{Action: Conflict, Kind: "cluster", Name: c.ID,
			What: "is revoked; take it out of the file, or let it in again: ikhnos cluster approve " + c.ID})
		return
	}
	what := differences("labels.", old.Labels, c.Labels)
	what = append(what, differences("", clusterWords(&old), clusterWords(&c.Cluster))...)
	change := &ClusterChange{ID: c.ID, Approve: c.Approve && old.State == operators.ClusterPending}
	if len(what) > 0 {
		change.Put = request
	}
	if change.Approve {
		what = append(what, "approve")
	}
	p.update("cluster", c.ID, what, Change{Cluster: change})
}

// update adds a line for what differs, or counts the object as unchanged.
func (p *planner) update(kind, name string, what []string, c Change) {
	if len(what) == 0 {
		p.plan.Unchanged++
		return
	}
	c.Action, c.Kind, c.Name, c.What = Update, kind, name, strings.Join(what, ", ")
	p.add(c)
}

// updateFolder is update for an object with a folder.
func (p *planner) updateFolder(kind, name string, what []string, folder Folder, c Change) {
	if folder.Install || folder.Heartbeat {
		what = append(what, folder.Why)
	}
	if p.update(kind, name, what, c); len(what) == 0 && folder.Why != "" {
		p.add(Change{Action: Keep, Kind: kind, Name: name, What: folder.Why})
	}
}

// clusterWords are what else of a cluster may change.
func clusterWords(c *operators.Cluster) map[string]string {
	tenant := ""
	if c.Tenant != nil {
		tenant = fmt.Sprintf("%d:%d", c.Tenant.Account, c.Tenant.Project)
	}
	return map[string]string{"kind": string(c.Kind), "tenant": tenant, "silentAfter": c.SilentAfter}
}

// differences are "name: old → new", by name.
func differences(prefix string, old, wanted map[string]string) []string {
	names := maps.Clone(old)
	if names == nil {
		names = map[string]string{}
	}
	maps.Copy(names, wanted)
	var out []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if old[name] != wanted[name] {
			out = append(out, fmt.Sprintf("%s%s: %s → %s", prefix, name, orNone(old[name]), orNone(wanted[name])))
		}
	}
	return out
}

func orNone(s string) string {
	if s == "" {
		return "(none)"
	}
	return s
}

func (p *planner) undeclaredClusters() {
	if !p.HasClusters {
		return
	}
	declared := map[string]bool{}
	for i := range p.Clusters {
		declared[p.Clusters[i].ID] = true
	}
	for _, id := range slices.Sorted(maps.Keys(p.clusters)) {
		switch c := p.clusters[id]; {
		case declared[id] || c.State == operators.ClusterRevoked:
		case p.prune:
			p.add(Change{Action: Revoke, Kind: "cluster", Name: id, What: "not in the file; cut off everywhere", Cluster: &ClusterChange{ID: id, Revoke: true}})
		default:
			p.add(Change{Action: Keep, Kind: "cluster", Name: id, What: "not in the file; kept (--prune revoke would cut it off)"})
		}
	}
}

// senderState is whether a sender may send, "" when there is no connection.
func (p *planner) senderState(operatorID, holderID string) controlapi.SenderState {
	return p.senders[[2]string{operatorID, holderID}].State
}
