// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/distributions"
)

// shipped are the configurations that the collector ships with, by role.
var shipped = map[string][]byte{
	string(operators.RoleRegional): distributions.Regional,
	string(operators.RoleCentral):  distributions.Central,
	"cluster":                      distributions.Cluster,
}

// verbatim is configuration text in which a dollar sign means the environment.
type verbatim string

// values fill a shipped configuration in, by the name of the variable that would:
// a string, a verbatim, or a list or map of strings.
type values map[string]any

// configValues are the values that every configuration of an operator takes.
func (o Operator) configValues(state, secrets any) values {
	op := o.Operator
	v := values{
		"CONTINUUM_SERVER": o.Server.URL, "CONTINUUM_STATE": state, "CONTINUUM_SECRETS": secrets,
		"CONTINUUM_OPERATOR_ID": op.ID, "CONTINUUM_OPERATOR_NAME": op.Name,
	}
	if len(o.Server.Pins) > 0 {
		v["CONTINUUM_CA_PINS"] = o.Server.Pins
	}
	if len(op.Labels) > 0 {
		v["CONTINUUM_OPERATOR_LABELS"] = op.Labels
	}
	switch {
	case o.Destination != nil:
		v["CONTINUUM_DESTINATION"], v["CONTINUUM_DESTINATION_NAME"] = o.Destination.Address, o.Destination.StableName()
	case o.toEndpoint():
		v["CONTINUUM_DESTINATION"] = op.Destination.Endpoint
	}
	return v
}

// configuration is the shipped one of the operator's role, filled in. Where it
// sends to no operator it has no certificate of its own and verifies by the
// system's roots.
func (o Operator) configuration(v values, edits ...func(*yaml.Node)) string {
	if o.toEndpoint() {
		edits = append(edits, func(root *yaml.Node) {
			remove(at(root, "extensions", "ikhnosrenew", "certificates"), "export")
			remove(at(root, "exporters", "otlp_grpc/central"), "tls")
		})
	}
	if o.Heartbeat.Value != "" {
		edits = append(edits, func(root *yaml.Node) {
			list := at(root, "service", "extensions")
			list.Content = append(list.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: "heartbeat"})
		})
	}
	return fill(string(o.Operator.Role), v, edits...)
}

func (s Sender) configValues(state, secrets any) values {
	v := values{
		"CONTINUUM_SERVER": s.Server.URL, "CONTINUUM_STATE": state, "CONTINUUM_SECRETS": secrets,
		"CONTINUUM_DESTINATION": s.Link.Address, "CONTINUUM_DESTINATION_NAME": s.Link.StableName(),
	}
	if len(s.Server.Pins) > 0 {
		v["CONTINUUM_CA_PINS"] = s.Server.Pins
	}
	return v
}

// config is a whole configuration with the secrets that it reads.
func (o Operator) config() []Block {
	id, dir := o.Operator.ID, o.secretsDir()
	return append(secretFiles(onOperatorMachine, dir, o.secrets()),
		Block{onOperatorMachine, "the configuration: continuum-collector --config " + id + ".yaml", id + ".yaml",
			o.configuration(o.configValues(stateDir(id), dir))})
}

func (s Sender) config() []Block {
	if s.Collector == Continuum {
		id := s.HolderID
		return append(secretFiles(onSenderMachine, secretsDir(id), s.secrets()),
			Block{onSenderMachine, "the configuration: continuum-collector --config " + id + ".yaml", id + ".yaml",
				fill("cluster", s.configValues(stateDir(id), secretsDir(id)))})
	}
	return append(s.heldByFiles(), Block{onSenderMachine, "a whole configuration for any collector; older ones call the exporter's type otlp", s.HolderID + ".yaml",
		s.stockConfiguration(s.dir()).text()})
}

// fill writes values into the shipped configuration of a role and leaves every other
// variable with its default to the environment. Its README.md is named by its whole
// path, for the reader of a copy. That ours are YAML is held by their own tests.
func fill(role string, v values, edits ...func(*yaml.Node)) string {
	configuration := strings.ReplaceAll(string(shipped[role]), " README.md", " distributions/"+role+"/README.md")
	var document yaml.Node
	_ = yaml.Unmarshal([]byte(configuration), &document)
	v.fill(&document)
	for _, edit := range edits {
		edit(document.Content[0])
	}
	return section.ReplaceAllString(encode(&document), "\n\n$1") // the blank lines that YAML does not keep
}

var (
	section  = regexp.MustCompile(`\n+([a-z]+:)`)
	variable = regexp.MustCompile(`\$\{env:([A-Z_]+):-[^}]*\}`)
	whole    = regexp.MustCompile(`^` + variable.String() + `$`)
)

func (v values) fill(n *yaml.Node) {
	for _, child := range n.Content {
		v.fill(child)
	}
	if n.Kind != yaml.ScalarNode {
		return
	}
	if name := whole.FindStringSubmatch(n.Value); name != nil {
		if value, ok := v[name[1]]; ok {
			v.replace(n, value)
		}
		return
	}
	n.Value = variable.ReplaceAllStringFunc(n.Value, func(found string) string {
		switch value := v[variable.FindStringSubmatch(found)[1]].(type) {
		case string:
			return collectorText(value)
		case verbatim:
			return string(value)
		default:
			return found
		}
	})
}

// replace puts a value in the place of a node and keeps its comments.
func (v values) replace(n *yaml.Node, value any) {
	switch value := value.(type) {
	case string:
		n.Tag, n.Value, n.Style = "!!str", collectorText(value), yaml.DoubleQuotedStyle
	case verbatim:
		n.Tag, n.Value, n.Style = "!!str", string(value), yaml.DoubleQuotedStyle
	case []string:
		n.Kind, n.Tag, n.Value, n.Style = yaml.SequenceNode, "!!seq", "", yaml.FlowStyle
		for _, item := range value {
			n.Content = append(n.Content, textNode(item))
		}
	case map[string]string:
		n.Kind, n.Tag, n.Value, n.Style = yaml.MappingNode, "!!map", "", 0
		for _, key := range slices.Sorted(maps.Keys(value)) {
			n.Content = append(n.Content, textNode(key), textNode(value[key]))
		}
	}
}

func textNode(text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: collectorText(text), Style: yaml.DoubleQuotedStyle}
}

// at walks mappings by key. A path that is not there is a fault of ours.
func at(n *yaml.Node, path ...string) *yaml.Node {
	for _, key := range path {
		n = n.Content[index(n, key)+1]
	}
	return n
}

// index is the place of a key in a mapping, -1 without it.
func index(n *yaml.Node, key string) int {
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return i
		}
	}
	return -1
}

func remove(n *yaml.Node, key string) {
	i := index(n, key)
	n.Content = append(n.Content[:i], n.Content[i+2:]...)
}
