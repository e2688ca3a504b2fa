// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// parsed is a file that must be right.
func parsed(t *testing.T, content string) *Fleet {
	t.Helper()
	f := &Fleet{}
	require.Empty(t, f.Parse("fleet.yaml", []byte(content)))
	return f
}

const whole = `
clusters:
  - {id: c1, kind: host, labels: {env: prod}, tenant: "5:6", silentAfter: 90s, approve: true}
  - {id: c2, tenant: {account: 1, project: 2}}
operators:
  - {id: op-eu, name: EU, destination: op-central, labels: {region: eu}, address: EU.example.com, heartbeat: "on"}
  - {id: op-central, name: Central, role: central}
senders:
  - {id: c1, operator: op-eu, address: 10.0.0.7}
`

func TestParse(t *testing.T) {
	f := parsed(t, whole)
	require.Len(t, f.Clusters, 2)
	assert.Equal(t, operators.Cluster{
		ID: "c1", Kind: operators.ClusterHost, Labels: map[string]string{"env": "prod"},
		Tenant: &controlapi.Tenant{Account: 5, Project: 6}, SilentAfter: "90s",
	}, f.Clusters[0].Cluster)
	assert.True(t, f.Clusters[0].Approve)
	assert.Equal(t, &controlapi.Tenant{Account: 1, Project: 2}, f.Clusters[1].Tenant)
	assert.Equal(t, "5m", f.Clusters[1].SilentAfter, "the server's default")
	assert.Equal(t, "eu.example.com:4317", *f.Operators[0].Address, "AD-17")
	assert.Equal(t, "10.0.0.7:4317", *f.Senders[0].Address)
}

func TestDocumentsAndLists(t *testing.T) {
	f := parsed(t, "clusters: [{id: c1}]\n---\n- clusters: [{id: c2}]\n- operators:\n- senders:\n  clusters: &more [{id: c3}]\n---\n")
	require.Len(t, f.Clusters, 3)
	assert.True(t, f.HasClusters)
	assert.False(t, f.HasOperators, "a section with nothing in it is left out")
}

// Every fault names its line, its column and its field.
func TestFaults(t *testing.T) {
	for name, tc := range map[string]struct{ content, want string }{
		"not YAML":          {"clusters: [", "f:1:1: is not YAML: "},
		"empty":             {"# nothing\n", "f:1:1: declares nothing"},
		"text":              {"fleet", "f:1:1: must be a mapping with the fields clusters, operators, senders, not text"},
		"unknown section":   {"cluster: []", "f:1:1: cluster: there is no such field"},
		"section no list":   {"clusters: {id: c1}", "f:1:11: clusters: must be a list, not a mapping"},
		"unknown field":     {"clusters:\n  - id: c1\n    label: {}\n", "f:3:5: clusters[0].label: there is no such field; there are id, kind,"},
		"field twice":       {"clusters:\n  - id: c1\n    id: c2\n", "f:3:5: clusters[0].id: is there twice"},
		"mistyped":          {"clusters:\n  - id: 7\n", "f:2:9: clusters[0].id: must be text, not a number: put it in quotes"},
		"truth":             {"clusters:\n  - {id: c1, approve: maybe}\n", "f:2:23: clusters[0].approve: must be true or false, not text"},
		"no id":             {"clusters:\n  - kind: host\n", "f:2:5: clusters[0].id: must be a lower-case DNS label"},
		"kind":              {"clusters:\n  - {id: c1, kind: vm}\n", "f:2:20: clusters[0].kind: must be one of: kubernetes, host"},
		"label value":       {"clusters:\n  - id: c1\n    labels:\n      env: prod\n      n: 1\n", "f:5:10: clusters[0].labels.n: must be text, not a number"},
		"label name":        {"clusters:\n  - id: c1\n    labels:\n      env: prod\n      continuum.x: y\n", "f:5:7: clusters[0].labels.continuum.x: "},
		"silentAfter":       {"clusters:\n  - {id: c1, silentAfter: 1d}\n", "f:2:27: clusters[0].silentAfter: must be a duration"},
		"tenant":            {"clusters:\n  - {id: c1, tenant: '5'}\n", "f:2:22: clusters[0].tenant: must be ACCOUNT:PROJECT"},
		"tenant field":      {"clusters:\n  - {id: c1, tenant: {account: -1, project: 0}}\n", "f:2:32: clusters[0].tenant.account: must be a number"},
		"tenant half":       {"clusters:\n  - {id: c1, tenant: {account: 1}}\n", "f:2:22: clusters[0].tenant.project: is missing"},
		"same cluster":      {"clusters: [{id: c1}, {id: c1}]", "f:1:27: clusters[1].id: is declared twice, first at f:1"},
		"cluster like op":   {"clusters: [{id: op-1}]", "f:1:17: clusters[0].id: must not start with op-"},
		"no destination":    {"operators: [{id: op-eu, name: EU}]", "f:1:13: operators[0].destination: a regional operator needs a destination"},
		"heartbeat":         {"operators: [{id: op-eu, name: EU, role: central, heartbeat: true}]", "f:1:61: operators[0].heartbeat: must be text, not a truth value"},
		"address":           {"operators: [{id: op-eu, name: EU, role: central, address: localhost}]", "f:1:59: operators[0].address: must be reachable from another cluster"},
		"same operator":     {"operators: [{id: op-a, name: A, role: central}, {id: op-a, name: A, role: central}]", "f:1:54: operators[1].id: is declared twice"},
		"sender no op":      {"senders: [{id: c1}]", "f:1:11: senders[0].operator: is missing"},
		"same sender":       {"senders: [{id: c1, operator: op-a}, {id: c1, operator: op-a}]", "f:1:42: senders[1].id: is declared twice for this operator"},
		"alias to an entry": {"clusters: [&a {id: c1}, *a]", "clusters[1].id: is declared twice"},
	} {
		t.Run(name, func(t *testing.T) {
			faults := (&Fleet{}).Parse("f", []byte(tc.content))
			require.NotEmpty(t, faults)
			assert.Contains(t, faults[0].String(), tc.want)
		})
	}
}

// stateOf is a server that has what a fleet declares.
func stateOf(f *Fleet) State {
	var s State
	for _, c := range f.Clusters {
		c.State = operators.ClusterPending
		if c.Approve {
			c.State = operators.ClusterApproved
		}
		s.Clusters = append(s.Clusters, c.Cluster)
	}
	for _, o := range f.Operators {
		if o.Address != nil {
			o.Operator.Address = *o.Address
		}
		s.Operators = append(s.Operators, o.Operator)
	}
	for _, one := range f.Senders {
		sender := operators.Sender{HolderID: one.HolderID, OperatorID: one.OperatorID, Kind: controlapi.KindCluster, State: controlapi.SenderAllowed}
		if one.Address != nil {
			sender.Address = *one.Address
		}
		s.Senders = append(s.Senders, sender)
	}
	return s
}

func lines(p *Plan) []string {
	out := make([]string, len(p.Changes))
	for i, c := range p.Changes {
		out[i] = Signs[c.Action] + " " + c.Kind + " " + c.Name + "  " + c.What
	}
	return out
}

func TestPlan(t *testing.T) {
	base := parsed(t, whole)
	for name, tc := range map[string]struct {
		content string
		edit    func(*State)
		prune   bool
		want    []string
	}{
		"nothing there": {content: whole, edit: func(s *State) { *s = State{} }, want: []string{
			"+ cluster c1  register, approve", "+ cluster c2  register",
			"+ operator op-central  create, central", "+ operator op-eu  create, regional, sends to op-central, at eu.example.com:4317",
			"+ sender c1 → op-eu  connect",
		}},
		"all there": {content: whole},
		"labels and tenant": {content: `clusters: [{id: c1, kind: host, labels: {env: stage, team: a}, silentAfter: 90s, approve: true}, {id: c2, approve: true}]`, want: []string{
			"~ cluster c1  labels.env: prod → stage, labels.team: (none) → a, tenant: 5:6 → (none)",
			"~ cluster c2  tenant: 1:2 → (none), approve",
		}},
		"left out and kept": {content: `clusters: [{id: c2, tenant: "1:2"}]`, want: []string{
			"! cluster c1  not in the file; kept (--prune revoke would cut it off)",
		}},
		"left out and pruned": {prune: true, content: `{clusters: [{id: c2, tenant: "1:2"}], senders: [], operators: []}`, want: []string{
			"- cluster c1  not in the file; cut off everywhere",
			"! operator op-central  not in the file; kept (ikhnos operator retire op-central shows how it leaves)",
			"! operator op-eu  not in the file; kept (ikhnos operator retire op-eu shows how it leaves)",
		}},
		"sender pruned":       {prune: true, content: "senders: []", want: []string{"- sender c1 → op-eu  not in the file; cut off"}},
		"sender kept":         {content: "senders: []", want: []string{"! sender c1 → op-eu  not in the file; kept (--prune revoke would cut it off)"}},
		"address of a sender": {content: `senders: [{id: c1, operator: op-eu, address: ""}]`, want: []string{"~ sender c1 → op-eu  address: 10.0.0.7:4317 → (none)"}},
		"address left alone":  {content: `senders: [{id: c1, operator: op-eu}]`},
		"address of an operator": {content: `operators: [{id: op-eu, name: EU, destination: op-central, labels: {region: eu}, heartbeat: "on", address: "9.9.9.9"}, {id: op-central, name: Central, role: central, heartbeat: "on"}]`, want: []string{
			"~ operator op-central  heartbeat: off → on, new secret", "~ operator op-eu  address: eu.example.com:4317 → 9.9.9.9:4317",
		}},
		"what of an operator never changes": {content: `operators: [{id: op-eu, name: Eu, destination: "h:1", exposure: node_port}, {id: op-central, name: Central, role: central}]`, want: []string{
			"! operator op-eu  destination: op-central → h:1, exposure: cluster → node_port, name: EU → Eu, labels.region: eu → (none), heartbeat: on → off " +
				"cannot be changed; declare a new operator under another id, then: ikhnos operator retire op-eu",
		}},
		"revoked": {content: whole, edit: func(s *State) {
			s.Clusters[0].State, s.Senders[0].State = operators.ClusterRevoked, controlapi.SenderRevoked
		}, want: []string{
			"! cluster c1  is revoked; take it out of the file, or let it in again: ikhnos cluster approve c1",
			"! sender c1 → op-eu  is revoked; take it out of the file, or let it in again: ikhnos sender restore c1 --operator op-eu",
		}},
		"revoked operator": {content: "operators: [{id: op-central, name: Central, role: central}]", edit: func(s *State) {
			s.Operators = s.Operators[1:]
			s.Operators[0].State = operators.OperatorRevoked
		}, want: []string{"! operator op-central  is revoked, which is for good; declare it under another id and take this one out of the file"}},
	} {
		t.Run(name, func(t *testing.T) {
			state := stateOf(base)
			if tc.edit != nil {
				tc.edit(&state)
			}
			plan, faults := parsed(t, tc.content).Plan(state, tc.prune)
			require.Empty(t, faults)
			assert.Equal(t, tc.want, append([]string(nil), lines(plan)...))
		})
	}
}

// What only the server can tell is still found before the first change.
func TestPlanFaults(t *testing.T) {
	for name, tc := range map[string]struct{ content, want string }{
		"no operator":           {"senders: [{id: c1, operator: op-none}]", "f:1:30: senders[0].operator: there is no operator op-none"},
		"no cluster":            {"senders: [{id: c9, operator: op-eu}]", "f:1:16: senders[0].id: there is no cluster c9"},
		"not approved":          {"senders: [{id: c2, operator: op-eu}]", "senders[0].id: c2 is not approved yet: ikhnos cluster approve c2"},
		"not approved in file":  {"{clusters: [{id: c9}], senders: [{id: c9, operator: op-eu}]}", "senders[0].id: c9 is not approved: its entry needs approve: true"},
		"no destination":        {"operators: [{id: op-x, name: X, destination: op-none}]", "operators[0].destination: op-none is no central operator"},
		"regional destination":  {"operators: [{id: op-x, name: X, destination: op-eu}]", "op-eu is no central operator"},
		"itself":                {"operators: [{id: op-x, name: X, destination: op-x}]", "an operator does not send to itself"},
		"central to operator":   {"operators: [{id: op-x, name: X, role: central, destination: op-central}]", "a central operator does not send to another operator"},
		"operator to elsewhere": {"senders: [{id: op-central, operator: op-eu}]", "op-central does not send to op-eu"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &Fleet{}
			require.Empty(t, f.Parse("f", []byte(tc.content)))
			_, faults := f.Plan(stateOf(parsed(t, whole)), false)
			require.Len(t, faults, 1)
			assert.Contains(t, faults[0].String(), tc.want)
		})
	}
}

// An export declares exactly what is there, whatever the words in it look like.
func TestExportIsApplied(t *testing.T) {
	state := stateOf(parsed(t, whole))
	state.Clusters[0].Labels = map[string]string{"a": "yes", "b": "1", "c": "~", "d": "ü: x", "e": "# no"}
	state.Operators[0].Name = "on"
	content, err := Export(state).YAML()
	require.NoError(t, err)
	plan, faults := parsed(t, string(content)).Plan(state, true)
	require.Empty(t, faults)
	assert.Empty(t, lines(plan))
	assert.Equal(t, 5, plan.Unchanged)
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{whole, "a: &a [*a]", "clusters: [", "- clusters:", "clusters: [{id: c1, tenant: {account: 1e9}}]", "operators: [{id: op-x, destination: {kind: otlp}}]"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		declared := &Fleet{}
		faults := declared.Parse("f", content)
		for _, fault := range faults {
			assert.Positive(t, fault.Line, fault.String())
		}
		if len(faults) > 0 {
			return
		}
		if _, faults := declared.Plan(State{}, true); len(faults) > 0 {
			return
		}
		plan, faults := declared.Plan(stateOf(declared), true)
		require.Empty(t, faults)
		assert.Empty(t, lines(plan), "what is there already needs no change")
	})
}
