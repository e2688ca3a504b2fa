// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package checkconfig

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ikhnos/continuum/internal/identityguard"
)

// Finding is one thing to mend.
type Finding struct {
	File string `json:"file"`
	Line int    `json:"line"`
	Rule string `json:"rule"` // its stable id
	What string `json:"what"`
	Why  string `json:"why"`
	Fix  string `json:"fix"`
}

// checker reviews one configuration.
type checker struct {
	file     string
	root     value
	findings []Finding
}

// Check reviews the content of a file; name is what findings call it. References
// to the environment count as their defaults; what has none is not judged.
func Check(name string, content []byte) []Finding {
	c := &checker{file: name}
	var document yaml.Node
	if err := yaml.Unmarshal(content, &document); err != nil {
		c.add(yamlLine(err), ruleNotYAML, "it is not YAML: "+yamlText(err))
		return c.findings
	}
	if len(document.Content) == 1 {
		c.root = of(document.Content[0], document.Content[0].Line)
	}
	if spec := c.root.get("spec", "config"); c.root.get("kind").is("OpenTelemetryCollector") && spec.there() {
		c.root = spec // of the OpenTelemetry operator
	}
	pipelines := c.root.get("service", "pipelines")
	if _, known := pipelines.text(); known && len(pipelines.entries()) == 0 {
		c.add(pipelines.line, ruleNoPipelines, "it has no service::pipelines")
		return c.findings
	}
	c.guard()
	c.tlsBlocks()
	c.receivers()
	c.exporters()
	c.pipelines()
	slices.SortStableFunc(c.findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), strings.Compare(a.Rule, b.Rule))
	})
	return slices.CompactFunc(c.findings, func(a, b Finding) bool { return a == b })
}

// add reports that rule r was broken at a line.
func (c *checker) add(line int, r rule, what string, args ...any) {
	if len(args) > 0 {
		what = fmt.Sprintf(what, args...)
	}
	c.findings = append(c.findings, Finding{c.file, max(line, 1), r.id, what, r.why, r.fix})
}

// guard reports what the collector's own guard would refuse.
func (c *checker) guard() {
	var conf map[string]any
	if err := c.root.Decode(&conf); err != nil {
		c.add(yamlLine(err), ruleNotYAML, "it cannot be read as a configuration: "+yamlText(err))
		return
	}
	expandAll(conf)
	for _, problem := range identityguard.Check(conf, identityguard.Written, false).Problems {
		line := c.root.get("service", "pipelines", firstID(problem.Pipeline)).line
		if strings.HasPrefix(problem.Text, "protocol ") || line == 0 {
			line = cmp.Or(c.root.get("receivers", firstID(problem.Receiver)).line, line)
		}
		found := ruleGuard
		found.fix = problem.Remedy
		c.add(line, found, "receiver %s in pipeline %s: %s", problem.Receiver, problem.Pipeline, problem.Text)
	}
}

var quotedID = regexp.MustCompile(`^"([^"]*)"`)

// firstID is the first of the quoted ids of a guard's problem.
func firstID(ids string) string {
	if found := quotedID.FindStringSubmatch(ids); found != nil {
		return found[1]
	}
	return ""
}

var lineOfError = regexp.MustCompile(`line (\d+):? ?`)

func yamlLine(err error) int {
	line := 1
	if found := lineOfError.FindStringSubmatch(err.Error()); found != nil {
		line, _ = strconv.Atoi(found[1])
	}
	return line
}

func yamlText(err error) string {
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "yaml: "), "unmarshal errors:\n  ")
	text, _, _ = strings.Cut(text, "\n")
	return lineOfError.ReplaceAllString(text, "")
}

func typeOf(id string) string {
	kind, _, _ := strings.Cut(id, "/")
	return strings.TrimSpace(kind)
}
