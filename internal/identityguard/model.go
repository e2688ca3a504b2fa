// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package identityguard

import (
	"maps"
	"slices"
	"strings"

	"go.opentelemetry.io/collector/component"
)

// Form says who wrote a configuration. The two differ in what nothing means.
type Form int

const (
	// Written by a user, references expanded: a section with nothing in it has
	// its defaults.
	Written Form = iota
	// FromCollector as a collector shows what it runs: a section with nothing in
	// it is switched off.
	FromCollector
)

// Types of the components that the rules name.
const (
	typeAuth     = "certnameauth"
	typeIdentity = "continuumidentity"
	typeLimiter  = "memory_limiter"
	typeOTLP     = "otlp"
)

// model is the part of a configuration that the rules look at.
type model struct {
	form       Form
	auths      map[string]auth
	identities map[string]identity
	receivers  map[string]any
	connectors map[string]any
	extensions []string // of service
	pipelines  map[string]pipeline
}

type auth struct {
	mode   string
	exempt []string
}

// identity is one continuumidentity. senderMode is empty without a sender block.
type identity struct {
	senderMode string
	operator   bool
	guarded    bool
}

type pipeline struct{ receivers, processors, exporters []string }

func parse(conf map[string]any, form Form) *model {
	service := section(conf, "service")
	m := &model{
		form:       form,
		auths:      map[string]auth{},
		identities: map[string]identity{},
		receivers:  byID(section(conf, "receivers")),
		connectors: byID(section(conf, "connectors")),
		extensions: ids(service["extensions"]),
		pipelines:  map[string]pipeline{},
	}
	for id, value := range byID(section(conf, "extensions")) {
		if typeOf(id) == typeAuth {
			guard := section(asMap(value), "guard")
			m.auths[id] = auth{mode: word(guard["mode"], ModeEnforce), exempt: ids(guard["exempt_receivers"])}
		}
	}
	for id, value := range byID(section(conf, "processors")) {
		if typeOf(id) == typeIdentity {
			m.identities[id] = m.identity(asMap(value))
		}
	}
	for id, value := range byID(section(service, "pipelines")) {
		p := asMap(value)
		m.pipelines[id] = pipeline{ids(p["receivers"]), ids(p["processors"]), ids(p["exporters"])}
	}
	return m
}

func (m *model) identity(conf map[string]any) identity {
	i := identity{guarded: word(conf["guard"], ModeEnforce) != ModeOff}
	if sender, on := m.optional(conf, "sender"); on {
		i.senderMode = word(sender["mode"], "stamp")
	}
	_, i.operator = m.optional(conf, "operator")
	return i
}

// optional reads an optional section of a component.
func (m *model) optional(conf map[string]any, key string) (content map[string]any, on bool) {
	value, present := conf[key]
	content = asMap(value)
	if enabled, ok := content["enabled"].(bool); ok {
		return content, enabled
	}
	return content, present && (value != nil || m.form == Written)
}

// byName lists the pipelines in a fixed order.
func (m *model) byName() []string { return slices.Sorted(maps.Keys(m.pipelines)) }

func section(conf map[string]any, key string) map[string]any { return asMap(conf[key]) }

func asMap(value any) map[string]any {
	m, _ := value.(map[string]any)
	return m
}

// byID brings the ids that are keys into their one form.
func byID(conf map[string]any) map[string]any {
	out := make(map[string]any, len(conf))
	for id, value := range conf {
		out[canonical(id)] = value
	}
	return out
}

// ids reads a list of ids; the collector takes one string with commas for a
// list, too.
func ids(value any) []string {
	var list []string
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			if text, ok := item.(string); ok {
				list = append(list, canonical(text))
			}
		}
	case []string:
		for _, text := range v {
			list = append(list, canonical(text))
		}
	case string:
		for text := range strings.SplitSeq(v, ",") {
			list = append(list, canonical(text))
		}
	}
	return list
}

// canonical is the id as the collector prints it.
func canonical(text string) string {
	var id component.ID
	if id.UnmarshalText([]byte(text)) != nil {
		return strings.TrimSpace(text) // the collector itself refuses it
	}
	return id.String()
}

func typeOf(id string) string {
	kind, _, _ := strings.Cut(id, "/")
	return kind
}

func word(value any, fallback string) string {
	if text, ok := value.(string); ok && text != "" {
		return text
	}
	return fallback
}
