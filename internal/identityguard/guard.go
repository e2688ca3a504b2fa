// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package identityguard

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.opentelemetry.io/collector/featuregate"
	"go.uber.org/zap"
)

// Modes of the guard.
const (
	ModeEnforce = "enforce"
	ModeWarn    = "warn"
	ModeOff     = "off"
)

// Problem is one way past the verification of identity. Receiver and Pipeline
// are ids, several with commas between them.
type Problem struct {
	Receiver string
	Pipeline string
	Text     string
	Remedy   string
}

// String is the one sentence under which a problem is refused everywhere.
func (p Problem) String() string {
	return fmt.Sprintf("receiver %s in pipeline %s: %s; %s", p.Receiver, p.Pipeline, p.Text, p.Remedy)
}

// Result is what Check found and how strictly the configuration wants it taken.
type Result struct {
	Mode     string
	Problems []Problem
}

// Check looks for problems where a certnameauth, or a continuumidentity with
// sender that is not out of the guard, is defined; elsewhere there are none.
// partialReload says that receivers can be loaded again without this check.
func Check(conf map[string]any, form Form, partialReload bool) Result {
	m := parse(conf, form)
	mode := m.mode()
	if mode == ModeOff {
		return Result{Mode: mode}
	}
	c := &checker{model: m, exempt: map[string]bool{}}
	for _, a := range m.auths {
		for _, id := range a.exempt {
			c.exempt[id] = true
		}
	}
	c.checkService(partialReload)
	c.checkReceivers()
	operatorUsed := c.operatorUsed()
	for _, name := range m.byName() {
		c.checkPipeline(name, m.pipelines[name])
		if operatorUsed {
			c.checkOperator(name, m.pipelines[name])
		}
	}
	return Result{Mode: mode, Problems: c.problems}
}

// Enforce checks a configuration in this process. In mode enforce it returns an
// error with every problem, in mode warn it logs them.
func Enforce(conf map[string]any, form Form, logger *zap.Logger) error {
	found := Check(conf, form, partialReload())
	if len(found.Problems) == 0 {
		return nil
	}
	if found.Mode == ModeWarn {
		for _, problem := range found.Problems {
			logger.Warn("Data can pass without a verified sender", zap.String("problem", problem.String()))
		}
		return nil
	}
	return errors.New(found.Text())
}

// Text is the refusal: every problem in one line of its own.
func (r Result) Text() string {
	var b strings.Builder
	b.WriteString("data could pass without a verified sender:")
	for _, problem := range r.Problems {
		b.WriteString("\n- " + problem.String())
	}
	return b.String()
}

// partialReload reads the two feature gates that together let a collector load
// receivers again by themselves.
func partialReload() bool {
	enabled := map[string]bool{}
	featuregate.GlobalRegistry().VisitAll(func(gate *featuregate.Gate) { enabled[gate.ID()] = gate.IsEnabled() })
	return enabled["service.partialReload"] && enabled["service.partialReloadReceivers"]
}

// mode is the strictest that any certnameauth asks for. Without one, a guarded
// continuumidentity with sender is reason enough to enforce.
func (m *model) mode() string {
	if len(m.auths) == 0 {
		for _, i := range m.identities {
			if i.senderMode != "" && i.guarded {
				return ModeEnforce
			}
		}
		return ModeOff
	}
	mode := ModeOff
	for _, a := range m.auths {
		switch {
		case a.mode == ModeWarn && mode == ModeOff:
			mode = ModeWarn
		case a.mode != ModeWarn && a.mode != ModeOff:
			mode = ModeEnforce
		}
	}
	return mode
}

type checker struct {
	*model
	exempt   map[string]bool
	problems []Problem
}

func (c *checker) add(receivers, pipelines []string, text, remedy string) {
	c.problems = append(c.problems, Problem{names(receivers), names(pipelines), text, remedy})
}

func names(list []string) string {
	if len(list) == 0 {
		return "(none)"
	}
	quoted := make([]string, len(list))
	for i, id := range list {
		quoted[i] = fmt.Sprintf("%q", id)
	}
	return strings.Join(quoted, ", ")
}

// checkService looks at what holds for the whole service.
func (c *checker) checkService(partialReload bool) {
	receivers, pipelines := c.verified(), c.byName()
	for _, id := range slices.Sorted(maps.Keys(c.auths)) {
		if !slices.Contains(c.extensions, id) {
			c.add(receivers, pipelines, fmt.Sprintf("%s is defined and does not run", id),
				"list it under service::extensions, which a later configuration replaces as a whole")
		}
	}
	if partialReload {
		c.add(receivers, pipelines, "receivers can be loaded again without this check",
			"switch the feature gate service.partialReload off")
	}
}

// verified lists the receivers that have to verify their senders.
func (c *checker) verified() []string {
	var list []string
	for _, p := range c.pipelines {
		for _, id := range p.receivers {
			if c.verifies(id) && !slices.Contains(list, id) {
				list = append(list, id)
			}
		}
	}
	slices.Sort(list)
	return list
}

func (c *checker) verifies(receiver string) bool {
	return !c.isConnector(receiver) && !c.exempt[receiver]
}

func (c *checker) isConnector(id string) bool {
	_, ok := c.connectors[id]
	return ok
}

// feeds lists the pipelines of a receiver.
func (c *checker) feeds(receiver string) []string {
	var list []string
	for _, name := range c.byName() {
		if slices.Contains(c.pipelines[name].receivers, receiver) {
			list = append(list, name)
		}
	}
	return list
}
