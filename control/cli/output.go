// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// document is what -o json prints for a list: the API's own shape, all pages in
// one.
type document[T any] struct {
	Items []T `json:"items"`
}

// show prints the result of a command: the API's document for -o json and yaml,
// else what table writes.
func show(cmd *cobra.Command, doc any, table func(w io.Writer)) error {
	w := cmd.OutOrStdout()
	switch text(cmd, "output") {
	case formatJSON:
		encoder := json.NewEncoder(w)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		return encoder.Encode(doc)
	case formatYAML:
		content, err := yaml.Marshal(doc)
		if err != nil {
			return fmt.Errorf("writing yaml: %w", err)
		}
		_, err = w.Write(content)
		return err
	default:
		table(w)
		return nil
	}
}

// showList prints items as a table with one row each, or, when there are none, the
// sentence empty where it is not taken for a row.
func showList[T any](cmd *cobra.Command, items []T, empty string, header []string, row func(T) []string) error {
	return show(cmd, document[T]{items}, func(w io.Writer) {
		if len(items) == 0 {
			if text(cmd, "quiet") != "true" {
				_, _ = fmt.Fprintln(cmd.ErrOrStderr(), empty)
			}
			return
		}
		rows := make([][]string, 0, len(items)+1)
		rows = append(rows, header)
		for _, item := range items {
			rows = append(rows, row(item))
		}
		writeTable(w, rows)
	})
}

// writeTable aligns columns by characters, two spaces between them, none at the
// end of a line; an empty cell is a dash.
func writeTable(w io.Writer, rows [][]string) {
	widths := map[int]int{}
	for _, row := range rows {
		for i := range row {
			if row[i] = plain(row[i]); row[i] == "" {
				row[i] = "-"
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(cell)
			line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
		}
		_, _ = fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}

// fields writes "name  value" lines, those without a value left out.
func fields(w io.Writer, pairs ...string) {
	width := 0
	for i := 0; i < len(pairs); i += 2 {
		width = max(width, len(pairs[i]))
	}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			_, _ = fmt.Fprintf(w, "%-*s  %s\n", width, pairs[i], plain(pairs[i+1]))
		}
	}
}

// progress tells a person what is going on; scripts do not see it.
func progress(cmd *cobra.Command, format string, args ...any) {
	if environmentOf(cmd).errTerminal && text(cmd, "quiet") != "true" {
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...)
	}
}

// warn tells what needs attention although the command succeeded.
func warn(cmd *cobra.Command, format string, args ...any) {
	_, _ = fmt.Fprintln(cmd.ErrOrStderr(), "warning: "+plain(fmt.Sprintf(format, args...)))
}

// labelsText is NAME=VALUE, sorted by name.
func labelsText(labels map[string]string) string {
	pairs := make([]string, 0, len(labels))
	for name, value := range labels {
		pairs = append(pairs, name+"="+value)
	}
	slices.Sort(pairs)
	return strings.Join(pairs, ",")
}

// date is a time as tables show it.
func date(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

func dateOf(t *time.Time) string {
	if t == nil {
		return ""
	}
	return date(*t)
}

// span is a duration in its largest unit: 3 s, 5 min, 4 h, 16 d, 4.1 years.
func span(d time.Duration) string {
	if d < 0 {
		d = -d
	}
	const day = 24 * time.Hour
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 2*day:
		return fmt.Sprintf("%d h", d/time.Hour)
	case d < 700*day:
		return fmt.Sprintf("%d d", d/day)
	default:
		return fmt.Sprintf("%.1f years", d.Hours()/24/365.25)
	}
}

// until is how far away t is, and on which side of now.
func until(t, now time.Time) string {
	switch {
	case t.IsZero():
		return ""
	case t.Before(now):
		return span(now.Sub(t)) + " ago"
	default:
		return "in " + span(t.Sub(now))
	}
}
