// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"errors"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/identity"
)

// begin reads the fields of an entry, and reports whether more can be said of it.
func (r *reader) begin(entry node, known []string) (fields map[string]node, ok bool) {
	before := len(r.faults)
	fields = r.mapping(entry, known...)
	return fields, len(r.faults) == before
}

// check is what the server would say of an entry, at the fields at fault.
func (r *reader) check(p place, err error) {
	var problem *controlapi.Problem
	if !errors.As(err, &problem) {
		return
	}
	for _, field := range problem.Errors {
		name, _, _ := strings.Cut(field.Field, ".")
		fault := p.fault(name, field.Detail)
		if name == "labels" {
			fault = labelFault(p, fault)
		}
		r.faults = append(r.faults, fault)
	}
}

// labelFault finds the label that a fault is about.
func labelFault(p place, fault Fault) Fault {
	labels := p.fields["labels"]
	if labels.Node == nil || labels.Kind != yaml.MappingNode {
		return fault
	}
	for i := 0; i+1 < len(labels.Content); i += 2 {
		name, value := labels.Content[i], labels.Content[i+1]
		err := identity.CheckLabels(map[string]string{name.Value: value.Value})
		if err != nil && strings.HasSuffix(err.Error(), fault.Text) {
			return Fault{fault.File, name.Line, name.Column, labels.path + "." + name.Value, fault.Text}
		}
	}
	return fault
}

func (f *Fleet) cluster(r *reader, entry node) {
	fields, ok := r.begin(entry, clusterFields)
	before := len(r.faults)
	request := operators.ClusterRequest{
		ID: r.text(fields["id"]), Kind: operators.ClusterKind(r.text(fields["kind"])),
		Labels: r.texts(fields["labels"]), SilentAfter: r.text(fields["silentAfter"]), Tenant: r.tenant(fields["tenant"]),
	}
	c := Cluster{Approve: r.truth(fields["approve"]), place: place{r.file, entry, fields}}
	if !ok || len(r.faults) > before {
		return
	}
	var err error
	if c.Cluster, err = request.Normal(); err != nil {
		r.check(c.place, err)
		return
	}
	for i := range f.Clusters {
		if f.Clusters[i].ID == c.ID {
			r.faults = append(r.faults, c.fault("id", "is declared twice, first at "+f.Clusters[i].where()))
			return
		}
	}
	f.Clusters = append(f.Clusters, c)
}

// where is an entry's place in words.
func (p place) where() string { return p.file + ":" + strconv.Itoa(p.entry.Line) }

// tenant reads {account, project}, or the text ACCOUNT:PROJECT of the command line.
func (r *reader) tenant(n node) *controlapi.Tenant {
	if n.Node == nil {
		return nil
	}
	if n.Kind == yaml.MappingNode {
		parts := r.mapping(n, "account", "project")
		return &controlapi.Tenant{Account: r.number(n, parts["account"], "account"), Project: r.number(n, parts["project"], "project")}
	}
	account, project, ok := strings.Cut(r.text(n), ":")
	a, errA := strconv.ParseUint(account, 10, 32)
	p, errP := strconv.ParseUint(project, 10, 32)
	if n.Tag == "!!str" && (!ok || errA != nil || errP != nil) {
		r.fault(n.Node, n.path, "must be ACCOUNT:PROJECT, two numbers")
	}
	return &controlapi.Tenant{Account: uint32(a), Project: uint32(p)}
}

func (r *reader) number(parent, n node, name string) uint32 {
	if n.Node == nil {
		r.fault(parent.Node, parent.path+"."+name, "is missing")
		return 0
	}
	var value uint32
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" || n.Decode(&value) != nil {
		r.fault(n.Node, n.path, "must be a number from 0 to 4294967295, not %s", kindOf(n.Node))
	}
	return value
}

func (f *Fleet) operator(r *reader, entry node) {
	fields, ok := r.begin(entry, operatorFields)
	before := len(r.faults)
	request := operators.OperatorRequest{
		ID: r.text(fields["id"]), Name: r.text(fields["name"]), Role: operators.OperatorRole(r.text(fields["role"])),
		Destination: r.destination(fields["destination"]), Labels: r.texts(fields["labels"]),
		Exposure: operators.Exposure(r.text(fields["exposure"])), Heartbeat: operators.Switch(r.text(fields["heartbeat"])),
	}
	o := Operator{Address: r.address(fields["address"]), place: place{r.file, entry, fields}}
	if !ok || len(r.faults) > before {
		return
	}
	var err error
	if o.Operator, err = request.Normal(); err != nil {
		r.check(o.place, err)
		return
	}
	for i := range f.Operators {
		if f.Operators[i].ID == o.ID {
			r.faults = append(r.faults, o.fault("id", "is declared twice, first at "+f.Operators[i].where()))
			return
		}
	}
	f.Operators = append(f.Operators, o)
}

// destination reads {kind, endpoint or operatorId}, or the text of the command
// line: an operator's id, or HOST:PORT.
func (r *reader) destination(n node) *operators.Destination {
	switch {
	case n.Node == nil:
		return nil
	case n.Kind == yaml.MappingNode:
		parts := r.mapping(n, "kind", "endpoint", "operatorId")
		return &operators.Destination{
			Kind: operators.DestinationKind(r.text(parts["kind"])), Endpoint: r.text(parts["endpoint"]), OperatorID: r.text(parts["operatorId"]),
		}
	default:
		return ParseDestination(r.text(n))
	}
}

// ParseDestination takes an operator's id, which never holds a colon, or an
// endpoint, which always does; nil for nothing.
func ParseDestination(s string) *operators.Destination {
	switch {
	case s == "":
		return nil
	case strings.HasPrefix(s, "op-") && !strings.Contains(s, ":"):
		return &operators.Destination{Kind: operators.DestinationOperator, OperatorID: s}
	default:
		return &operators.Destination{Kind: operators.DestinationOTLP, Endpoint: s}
	}
}

// address reads host[:port]; empty text forgets an address, a field that is left
// out keeps it.
func (r *reader) address(n node) *string {
	if n.Node == nil {
		return nil
	}
	text := r.text(n)
	if text == "" {
		return &text
	}
	address, err := operators.DialAddress(text)
	if err != nil {
		r.fault(n.Node, n.path, "%v", err)
	}
	return &address
}

func (f *Fleet) sender(r *reader, entry node) {
	fields, ok := r.begin(entry, senderFields)
	before := len(r.faults)
	s := Sender{
		HolderID: r.text(fields["id"]), OperatorID: r.text(fields["operator"]), Address: r.address(fields["address"]),
		place: place{r.file, entry, fields},
	}
	if ok && len(r.faults) == before {
		for name, value := range map[string]string{"id": s.HolderID, "operator": s.OperatorID} {
			if value == "" {
				r.faults = append(r.faults, s.fault(name, "is missing"))
				ok = false
			}
		}
	}
	if !ok || len(r.faults) > before {
		return
	}
	for i := range f.Senders {
		if f.Senders[i].HolderID == s.HolderID && f.Senders[i].OperatorID == s.OperatorID {
			r.faults = append(r.faults, s.fault("id", "is declared twice for this operator, first at "+f.Senders[i].where()))
			return
		}
	}
	f.Senders = append(f.Senders, s)
}
