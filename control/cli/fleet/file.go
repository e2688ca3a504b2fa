// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/ikhnos/continuum/control/operators"
)

// Fleet is what files declare. HasX says that a section of that kind was there:
// what is not declared at all is left alone.
type Fleet struct {
	Clusters  []Cluster
	Operators []Operator
	Senders   []Sender

	HasClusters, HasSenders, HasOperators bool
}

// Cluster is a declared cluster, with its defaults. Approve says that it may be
// connected.
type Cluster struct {
	operators.Cluster
	Approve bool

	place
}

// Operator is a declared operator, with its defaults. Address is nil when the file
// leaves it as it is.
type Operator struct {
	operators.Operator
	Address *string

	place
}

// Sender is a declared connection. Address is nil when the file leaves it as it is.
type Sender struct {
	HolderID   string
	OperatorID string
	Address    *string

	place
}

// place is where an entry and its fields stand.
type place struct {
	file   string
	entry  node
	fields map[string]node
}

// fault is what is wrong with a field of an entry, or with the entry.
func (p place) fault(field, text string) Fault {
	at := p.entry
	if n, ok := p.fields[field]; ok {
		at = n
	}
	path := at.path
	if path == p.entry.path && field != "" {
		path += "." + field
	}
	return Fault{p.file, at.Line, at.Column, path, text}
}

var (
	sections       = []string{"clusters", "operators", "senders"}
	clusterFields  = []string{"id", "kind", "labels", "tenant", "silentAfter", "approve"}
	operatorFields = []string{"id", "name", "role", "destination", "labels", "exposure", "heartbeat", "address"}
	senderFields   = []string{"id", "operator", "address"}
)

// Parse adds what a file declares to f and returns what is wrong with the file by
// itself; name is what faults call it. A file holds one or many YAML documents,
// each a mapping of sections or a list of such mappings.
func (f *Fleet) Parse(name string, content []byte) []Fault {
	r := &reader{file: name}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	documents := 0
	for {
		var document yaml.Node
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			r.faults = append(r.faults, notYAML(name, err))
			break
		}
		if len(document.Content) == 1 && !(node{document.Content[0], ""}).isNull() {
			documents++
			f.document(r, node{}.at(document.Content[0], ""))
		}
	}
	if documents == 0 && len(r.faults) == 0 {
		r.faults = append(r.faults, Fault{name, 1, 1, "", "declares nothing"})
	}
	return r.faults
}

func (f *Fleet) document(r *reader, root node) {
	parts := []node{root}
	if root.Kind == yaml.SequenceNode {
		parts = r.list(root)
	}
	for _, part := range parts {
		found := r.mapping(part, sections...)
		f.HasClusters = f.HasClusters || found["clusters"].Node != nil
		f.HasOperators = f.HasOperators || found["operators"].Node != nil
		f.HasSenders = f.HasSenders || found["senders"].Node != nil
		for _, entry := range r.list(found["clusters"]) {
			f.cluster(r, entry)
		}
		for _, entry := range r.list(found["operators"]) {
			f.operator(r, entry)
		}
		for _, entry := range r.list(found["senders"]) {
			f.sender(r, entry)
		}
	}
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

func notYAML(name string, err error) Fault {
	line, text := 1, err.Error()
	if found := yamlLine.FindStringSubmatch(text); found != nil {
		text = found[2]
		if n, err := strconv.Atoi(found[1]); err == nil {
			line = n
		}
	}
	return Fault{name, line, 1, "", "is not YAML: " + text}
}
