// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

type ruleFile struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert       string
			Expr        string
			For         string
			Labels      map[string]string
			Annotations map[string]string
		}
	}
}

func readRules(t *testing.T) ruleFile {
	t.Helper()
	text, err := os.ReadFile("alerts.yaml")
	require.NoError(t, err)
	var rules ruleFile
	require.NoError(t, yaml.Unmarshal(text, &rules))
	return rules
}

// Every alert says what, what it means, and where its runbook is; every runbook
// begins with a command and belongs to an alert or an incident.
func TestRunbooks(t *testing.T) {
	pages, err := filepath.Glob("../docs/runbooks/*.md")
	require.NoError(t, err)
	index, err := os.ReadFile("../docs/runbooks/README.md")
	require.NoError(t, err)
	for _, page := range pages {
		if filepath.Base(page) == "README.md" {
			continue
		}
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		assert.True(t, strings.HasPrefix(string(text), "```sh\n"), "%s begins with a command", page)
		assert.Contains(t, string(index), "("+filepath.Base(page)+")", "the index names %s", page)
	}
	seen := map[string]bool{}
	for _, group := range readRules(t).Groups {
		for _, rule := range group.Rules {
			require.False(t, seen[rule.Alert], "%s stands twice", rule.Alert)
			seen[rule.Alert] = true
			assert.FileExists(t, filepath.Join("..", "docs", "runbooks", rule.Alert+".md"))
			assert.True(t, strings.HasSuffix(rule.Annotations["runbook_url"], "/docs/runbooks/"+rule.Alert+".md"), rule.Alert)
			assert.NotEmpty(t, rule.Annotations["summary"], rule.Alert)
			assert.NotEmpty(t, rule.Annotations["description"], rule.Alert)
			assert.Contains(t, []string{"warning", "critical"}, rule.Labels["severity"], rule.Alert)
			assert.NotEmpty(t, metricNames(t, rule.Expr), rule.Alert)
		}
	}
}

type board struct {
	UID      string
	ID       *int
	Title    string
	Editable bool
	Tags     []string
	Panels   []struct {
		Type        string
		Title       string
		Description string
		Datasource  struct{ UID string }
		FieldConfig struct{ Defaults struct{ Unit string } }
		Targets     []struct {
			Expr       string
			Datasource struct{ UID string }
		}
	}
	Templating struct {
		List []struct{ Name, Type string }
	}
}

func dashboards(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob("dashboards/*.json")
	require.NoError(t, err)
	require.Len(t, paths, 4)
	return paths
}

func readBoard(t *testing.T, path string) board {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var b board
	require.NoError(t, json.Unmarshal(text, &b), path)
	return b
}

// The conventions that make a dashboard work in somebody else's Grafana: a stable
// uid, no baked-in data source, and for each panel a title, a description, a unit
// and queries that parse.
func TestDashboards(t *testing.T) {
	for _, path := range dashboards(t) {
		b := readBoard(t, path)
		assert.Equal(t, strings.TrimSuffix(filepath.Base(path), ".json"), b.UID)
		assert.Nil(t, b.ID, path)
		assert.True(t, b.Editable, path)
		assert.Contains(t, b.Tags, "continuum")
		require.NotEmpty(t, b.Templating.List)
		assert.Equal(t, "datasource", b.Templating.List[0].Type)
		for _, p := range b.Panels {
			name := b.Title + ": " + p.Title
			assert.NotEmpty(t, p.Description, name)
			assert.NotEmpty(t, p.FieldConfig.Defaults.Unit, name)
			assert.Contains(t, []string{"timeseries", "stat", "table"}, p.Type, name)
			assert.NotEmpty(t, p.Targets, name)
			for _, target := range p.Targets {
				assert.Equal(t, "${datasource}", target.Datasource.UID, name)
				assert.NotEmpty(t, metricNames(t, expand(target.Expr)), name)
			}
		}
	}
}

// metricNames parses a query and returns the names, or the patterns of names, that
// it selects.
func metricNames(t *testing.T, expr string) (names []string) {
	t.Helper()
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	require.NoError(t, err, expr)
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			for _, m := range selector.LabelMatchers {
				if m.Name == labels.MetricName {
					names = append(names, m.Value)
				}
			}
		}
		return nil
	})
	for _, name := range names {
		assert.Regexp(t, regexp.MustCompile(`^(ikhnos|otelcol)_[a-z_()?|]+$|^up$`), name, expr)
	}
	return names
}

// expand puts into a dashboard's query what Grafana does when every variable is
// All.
func expand(query string) string {
	return strings.NewReplacer(
		"$__rate_interval", "5m", "$org", ".*", "$operator", ".*", "$sender", ".*", "$instance", ".*",
	).Replace(query)
}
