// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ikhnos/continuum/test/testbed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// group is pages that run one after the other against one server.
type group struct {
	name     string
	pages    []string // paths or patterns below the checkout
	fleet    bool     // it has the fleet that the pages name
	sealed   bool     // its keys are sealed
	validate bool     // collectors check their configuration and end
}

// strands run beside each other, for the first mostly waits for a report of its
// operator; the groups of one run one after the other.
var strands = [][]group{
	{{name: "start", pages: []string{"docs/start.md"}}},
	{
		{name: "readme", pages: []string{"README.md"}},
		{name: "operate", pages: []string{"docs/understand.md", "docs/operate.md", "docs/runbooks/*.md"}, fleet: true},
		{name: "operations", pages: []string{"docs/operations.md"}, fleet: true, sealed: true},
		{name: "distributions", validate: true, pages: []string{
			"distributions/README.md", "distributions/central/README.md", "distributions/regional/README.md", "distributions/cluster/README.md",
		}},
	},
}

// exceptions are the commands that do not run.
var exceptions = []struct {
	page    string
	pattern *regexp.Regexp // of whole commands
	reason  string
}{
	{"README.md", command(`make (build|demo|test)`), "they build what runs here, or run this test"},
	{"README.md", command(`bin/ikhnos server`), "it ends when it is stopped; the test has a server"},
	{"README.md", command(`ikhnos sender wait`), "no collector runs; docs/start.md waits for one"},
	{"docs/start.md", command(`make build`), "it builds what runs here"},
	{"docs/start.md", command(`(bin/)?ikhnos server`), "it ends when it is stopped; the test has a server"},
}

// command matches commands that begin so, over lines that are continued.
func command(begin string) *regexp.Regexp {
	return regexp.MustCompile(`(?m)^` + begin + `\b(.*\\\n)*.*$`)
}

// names are the pages of a group.
func (g group) names(t *testing.T) (names []string) {
	t.Helper()
	root := testbed.Root(t)
	for _, pattern := range g.pages {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		require.NotEmpty(t, paths, pattern)
		for _, path := range paths {
			name, err := filepath.Rel(root, path)
			require.NoError(t, err)
			names = append(names, name)
		}
	}
	return names
}

// pages are all pages of which the commands are run.
func pages(t *testing.T) (names []string) {
	t.Helper()
	for _, g := range slices.Concat(strands...) {
		names = append(names, g.names(t)...)
	}
	return names
}

// TestCommands: every block of commands of the documentation does what it says.
func TestCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	for _, strand := range strands {
		t.Run("from "+strand[0].name, func(t *testing.T) {
			t.Parallel()
			for _, g := range strand {
				t.Run(g.name, func(t *testing.T) { g.run(t) })
			}
		})
	}
}

// run runs every block of commands of the group's pages.
func (g group) run(t *testing.T) {
	s := newSite(t, g)
	for _, name := range g.names(t) {
		if p := readPage(t, name); len(p.blocks) > 0 {
			s.run(p)
		}
	}
}

// TestExceptions: every exception is still needed, and every page says for which
// version it is.
func TestExceptions(t *testing.T) {
	for _, e := range exceptions {
		found := slices.ContainsFunc(readPage(t, e.page).blocks, func(b block) bool { return e.pattern.MatchString(b.text) })
		assert.True(t, found, "%s has no command %s", e.page, e.pattern)
		assert.NotEmpty(t, e.reason)
	}
	for _, name := range []string{"start", "understand", "operate", "operations", "runbooks/README"} {
		p := readPage(t, "docs/"+name+".md")
		assert.Equal(t, 1, strings.Count(p.prose, "For version 0.1.0"), p.name)
	}
}
