// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Fault is one thing that is wrong with a file, and where.
type Fault struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
	Field  string `json:"field,omitempty"`
	Text   string `json:"text"`
}

func (f Fault) String() string {
	where := fmt.Sprintf("%s:%d:%d", f.File, f.Line, f.Column)
	if f.Field != "" {
		where += ": " + f.Field
	}
	return where + ": " + f.Text
}

// reader walks a file's nodes and collects all faults of it.
type reader struct {
	file   string
	faults []Fault
}

func (r *reader) fault(at *yaml.Node, field, format string, args ...any) {
	r.faults = append(r.faults, Fault{r.file, at.Line, at.Column, field, fmt.Sprintf(format, args...)})
}

// node is a YAML node that remembers how it is reached.
type node struct {
	*yaml.Node
	path string
}

// at is a node below, an alias replaced by what it stands for.
func (n node) at(child *yaml.Node, step string) node {
	if child.Kind == yaml.AliasNode {
		child = child.Alias
	}
	return node{child, strings.TrimPrefix(n.path+step, ".")}
}

func (n node) isNull() bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// mapping reads the fields of a mapping by name. A field that is not among known,
// or is there twice, is a fault.
func (r *reader) mapping(n node, known ...string) map[string]node {
	found := map[string]node{}
	if n.Kind != yaml.MappingNode {
		r.fault(n.Node, n.path, "must be a mapping with the fields %s, not %s", strings.Join(known, ", "), kindOf(n.Node))
		return found
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.at(n.Content[i+1], "."+n.Content[i].Value)
		_, twice := found[key.Value]
		switch {
		case len(known) > 0 && !slices.Contains(known, key.Value):
			r.fault(key, value.path, "there is no such field; there are %s", strings.Join(known, ", "))
		case twice:
			r.fault(key, value.path, "is there twice")
		case value.isNull() && len(known) > 0:
			// A field with nothing in it is one that is left out.
		default:
			found[key.Value] = value
		}
	}
	return found
}

// list reads a list; nothing is an empty one.
func (r *reader) list(n node) []node {
	if n.Node == nil || n.isNull() {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		r.fault(n.Node, n.path, "must be a list, not %s", kindOf(n.Node))
		return nil
	}
	items := make([]node, len(n.Content))
	for i, item := range n.Content {
		items[i] = n.at(item, fmt.Sprintf("[%d]", i))
	}
	return items
}

// text reads a string; a field that is not there is an empty one.
func (r *reader) text(n node) string {
	if n.Node == nil {
		return ""
	}
	switch {
	case n.Kind != yaml.ScalarNode:
		r.fault(n.Node, n.path, "must be text, not %s", kindOf(n.Node))
	case n.Tag != "!!str":
		r.fault(n.Node, n.path, "must be text, not %s: put it in quotes", kindOf(n.Node))
	default:
		return n.Value
	}
	return ""
}

// truth reads true or false.
func (r *reader) truth(n node) bool {
	if n.Node == nil {
		return false
	}
	var value bool
	if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" || n.Decode(&value) != nil {
		r.fault(n.Node, n.path, "must be true or false, not %s", kindOf(n.Node))
	}
	return value
}

// texts reads a mapping of strings.
func (r *reader) texts(n node) map[string]string {
	values := map[string]string{}
	if n.Node == nil {
		return values
	}
	if n.Kind != yaml.MappingNode {
		r.fault(n.Node, n.path, "must be a mapping of names to text, not %s", kindOf(n.Node))
		return values
	}
	for name, value := range r.mapping(n) {
		values[name] = r.text(value)
	}
	return values
}

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.Tag {
	case "!!int", "!!float":
		return "a number"
	case "!!bool":
		return "a truth value"
	case "!!null":
		return "nothing"
	case "!!timestamp":
		return "a date"
	}
	return "text"
}
