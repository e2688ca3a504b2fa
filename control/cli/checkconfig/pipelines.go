// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package checkconfig

import (
	"slices"
	"strings"
)

// identity is whether a continuumidentity verifies senders or stamps an operator.
func (c *checker) identity(id string) (sender, operator bool) {
	if typeOf(id) != "continuumidentity" {
		return false, false
	}
	conf := c.root.get("processors", id)
	return conf.get("sender").Node != nil, conf.get("operator").Node != nil
}

// rank is where a processor belongs (contract, section 10); 0 for those that may
// stand anywhere between redaction and itemlimit.
func (c *checker) rank(id string) int {
	sender, operator := c.identity(id)
	switch kind := typeOf(id); {
	case kind == "memory_limiter":
		return 1
	case sender:
		return 2
	case kind == "resourcedetection" || kind == "resource_detection":
		return 3
	case kind == "redaction":
		return 4
	case kind == "itemlimit":
		return 6
	case operator:
		return 7
	default:
		return 5
	}
}

func (c *checker) pipelines() {
	for _, pipeline := range c.root.get("service", "pipelines").entries() {
		c.pipeline(pipeline.key, pipeline.value.get("processors"), c.verifiedBy(pipeline.value.get("receivers").words()))
	}
}

// verifiedBy reports whether some receiver decides who its senders are.
func (c *checker) verifiedBy(receivers []string) bool {
	return slices.ContainsFunc(receivers, func(id string) bool {
		protocols := c.root.get("receivers", id, "protocols")
		return verifies(protocols.get("grpc")) || verifies(protocols.get("http"))
	})
}

func (c *checker) pipeline(name string, processors value, verified bool) {
	items, ids := processors.items(), processors.words()
	identified := verified || slices.ContainsFunc(ids, func(id string) bool { return typeOf(id) == "continuumidentity" })
	for i, id := range ids {
		before := ids[:i]
		switch kind := typeOf(id); {
		case kind == "batch" && identified:
			c.add(items[i].line, ruleBatch, "pipeline %s has %s", name, id)
		case kind == "memory_limiter" && i > 0 && !c.guarded(name, "memory_limiter is not the first"):
			c.add(items[i].line, ruleLimiter, "%s is processor %d of pipeline %s", id, i+1, name)
			continue
		case c.rank(id) == 3 && identified && !c.root.get("processors", id, "override").is("false"):
			c.add(c.root.get("processors", id).line, ruleDetection, "%s of pipeline %s overrides what senders say", id, name)
		}
		// The order of what the guard and the limiter's own rule look at is theirs.
		for _, earlier := range before {
			if typeOf(earlier) != "batch" && c.rank(earlier) > c.rank(id) && c.rank(id) > 2 {
				c.add(items[i].line, ruleOrder, "%s stands after %s in pipeline %s", id, earlier, name)
				break
			}
		}
	}
}

// guarded reports whether the guard has said this of a pipeline.
func (c *checker) guarded(pipeline, text string) bool {
	return slices.ContainsFunc(c.findings, func(f Finding) bool {
		return f.Rule == ruleGuard.id && contains(f.What, `"`+pipeline+`"`, text)
	})
}

func contains(s string, parts ...string) bool {
	return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(s, part) })
}
