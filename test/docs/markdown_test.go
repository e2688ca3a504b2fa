// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/test/testbed"
)

// block is one fenced block of a page that is marked sh.
type block struct {
	line int // of its first command, from 1
	text string
}

// page is a page of the documentation.
type page struct {
	name   string // path below the checkout
	text   string
	blocks []block
	prose  string // the text without any fenced block
}

func readPage(t *testing.T, name string) *page {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(testbed.Root(t), name))
	require.NoError(t, err)
	p := &page{name: name, text: string(text)}
	var prose, commands strings.Builder
	var fence, kind string // of the open block: its indentation with the marks, and what it is marked
	begin := 0
	for i, line := range strings.Split(p.text, "\n") {
		indent, rest, found := strings.Cut(line, "```")
		isFence := found && strings.TrimSpace(indent) == ""
		switch {
		case isFence && fence == "":
			fence, kind, begin = indent+"```", rest, i+2
			commands.Reset()
		case isFence && rest == "":
			if kind == "sh" {
				p.blocks = append(p.blocks, block{begin, commands.String()})
			}
			fence = ""
		case fence != "":
			commands.WriteString(strings.TrimPrefix(line, indentOf(fence)) + "\n")
		default:
			prose.WriteString(line + "\n")
		}
	}
	require.Empty(t, fence, "%s: a block is not closed", name)
	p.prose = prose.String()
	return p
}

func indentOf(fence string) string { return strings.TrimSuffix(fence, "```") }

var headingPattern = regexp.MustCompile(`(?m)^#+ (.*)$`)

// anchors are the names by which links reach the headings of a page.
func (p *page) anchors() (names []string) {
	for _, m := range headingPattern.FindAllStringSubmatch(p.prose, -1) {
		name := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		names = append(names, strings.ReplaceAll(name, " ", "-"))
	}
	return names
}

var linkPattern = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// brokenLinks are the links within the checkout that lead nowhere.
func (p *page) brokenLinks(t *testing.T) (broken []string) {
	t.Helper()
	for _, m := range linkPattern.FindAllStringSubmatch(p.prose, -1) {
		path, anchor, _ := strings.Cut(m[1], "#")
		if strings.Contains(path, "://") {
			continue
		}
		target := p.name
		if path != "" {
			target = filepath.Join(filepath.Dir(p.name), path)
		}
		_, err := os.Stat(filepath.Join(testbed.Root(t), target))
		if err != nil || anchor != "" && !slices.Contains(readPage(t, target).anchors(), anchor) {
			broken = append(broken, m[1])
		}
	}
	return broken
}
