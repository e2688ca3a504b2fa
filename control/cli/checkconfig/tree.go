// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package checkconfig

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// value is a node of the file, nil where there is none. It knows the line by which
// people find it.
type value struct {
	*yaml.Node
	line int
}

// of resolves what an alias stands for; line is where it is used.
func of(n *yaml.Node, line int) value {
	for hops := 0; n != nil && n.Kind == yaml.AliasNode && hops < 10; hops++ {
		n = n.Alias
	}
	return value{n, line}
}

func (v value) there() bool {
	return v.Node != nil && (v.Kind != yaml.ScalarNode || v.Tag != "!!null")
}

// entry is one field of a mapping.
type entry struct {
	key   string
	value value
}

// entries are the fields of a mapping in the file's order, merged ones (<<) last.
func (v value) entries() []entry {
	m := merger{keys: map[string]bool{}, sources: map[*yaml.Node]bool{}}
	m.add(v)
	return m.entries
}

// merger collects fields: of each name the first, of each mapping once.
type merger struct {
	entries []entry
	keys    map[string]bool
	sources map[*yaml.Node]bool
}

func (m *merger) add(v value) {
	if v.Node == nil || v.Kind != yaml.MappingNode || m.sources[v.Node] {
		return
	}
	m.sources[v.Node] = true
	var merged []value
	for i := 0; i+1 < len(v.Content); i += 2 {
		key, content := v.Content[i], v.Content[i+1]
		switch {
		case key.Tag == "!!merge" && content.Kind == yaml.SequenceNode:
			merged = append(merged, of(content, key.Line).items()...)
		case key.Tag == "!!merge":
			merged = append(merged, of(content, key.Line))
		case !m.keys[key.Value]:
			m.keys[key.Value] = true
			m.entries = append(m.entries, entry{key.Value, of(content, key.Line)})
		}
	}
	for _, source := range merged {
		m.add(source)
	}
}

// get is the field at the end of a path of keys.
func (v value) get(path ...string) value {
	for _, key := range path {
		found := value{}
		for _, e := range v.entries() {
			if e.key == key {
				found = e.value
				break
			}
		}
		if v = found; v.Node == nil {
			return v
		}
	}
	return v
}

// items are the elements of a list; one text is a list of those between its commas,
// as a collector takes it.
func (v value) items() []value {
	switch {
	case v.Node == nil:
		return nil
	case v.Kind == yaml.SequenceNode:
		out := make([]value, len(v.Content))
		for i, n := range v.Content {
			out[i] = of(n, n.Line)
		}
		return out
	case v.there() && v.Kind == yaml.ScalarNode:
		var out []value
		for word := range strings.SplitSeq(v.Value, ",") {
			out = append(out, value{&yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: strings.TrimSpace(word)}, v.line})
		}
		return out
	}
	return nil
}

// words are the texts of a list, references expanded.
func (v value) words() []string {
	var out []string
	for _, item := range v.items() {
		text, _ := item.text()
		out = append(out, text)
	}
	return out
}

var reference = regexp.MustCompile(`\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|\$\{[^}]*\}`)

// text is a scalar with references to the environment replaced by their defaults.
// known is false when some reference has none: then only the machine knows.
func (v value) text() (text string, known bool) {
	if v.Node == nil || v.Kind != yaml.ScalarNode || v.Tag == "!!null" {
		return "", true
	}
	return expand(v.Value)
}

func expand(s string) (text string, known bool) {
	known = true
	text = reference.ReplaceAllStringFunc(s, func(ref string) string {
		found := reference.FindStringSubmatch(ref)
		if !strings.Contains(ref, ":-") || found[1] == "" {
			known = false
		}
		return found[2]
	})
	return strings.ReplaceAll(text, "$$", "$"), known
}

// is reports whether a scalar is this word, or could be: unknown ones are not.
func (v value) is(word string) bool {
	text, known := v.text()
	return known && v.there() && strings.EqualFold(text, word)
}

// zero reports whether a duration or number is certainly nothing.
func (v value) zero() bool {
	text, known := v.text()
	if !known {
		return false
	}
	d, err := time.ParseDuration(text)
	return text == "" || text == "null" || text == "0" || err == nil && d == 0
}

// duration is a value's duration, fallback when the field is not there.
func (v value) duration(fallback time.Duration) (d time.Duration, known bool) {
	text, known := v.text()
	if !v.there() || !known {
		return fallback, known
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return time.Duration(n), true
	}
	d, err := time.ParseDuration(text)
	return d, err == nil
}

// expandAll replaces references in decoded YAML; a value that is one reference
// takes the type of its default.
func expandAll(v any) any {
	switch x := v.(type) {
	case map[string]any:
		for key, item := range x {
			x[key] = expandAll(item)
		}
	case []any:
		for i, item := range x {
			x[i] = expandAll(item)
		}
	case string:
		if !strings.Contains(x, "$") {
			return x
		}
		text, _ := expand(x)
		if reference.FindString(x) == x {
			var typed any
			if yaml.Unmarshal([]byte(text), &typed) == nil {
				return typed
			}
		}
		return text
	}
	return v
}
