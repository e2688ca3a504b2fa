// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/ikhnos/continuum/control/operators"
)

// maxReceiptWait is the longest ?wait= of a revocation or a receipt.
const maxReceiptWait = 10 * time.Second

// parameter describes a query parameter in the API document.
type parameter struct {
	kind, text string
	enum       []any
}

// parameters are all query parameters there are, by name.
var parameters = map[string]parameter{
	"limit":      {kind: "integer", text: "Items of one page, 1 to 500; 100 when absent."},
	"cursor":     {kind: "string", text: "The nextCursor of the page before."},
	"force":      {kind: "string", text: "true goes on although something depends on it.", enum: []any{"true", "false"}},
	"wait":       {kind: "integer", text: "Whole seconds to wait: 0 to 60 for another policy, 0 to 10 for confirmations."},
	"kind":       {kind: "string", text: "Kind.", enum: []any{"kubernetes", "host"}},
	"holder":     {kind: "string", text: "Whole name of the holder."},
	"role":       {kind: "string", text: "Role of the leaf.", enum: []any{"receiver", "sender"}},
	"state":      {kind: "string", text: "State."},
	"endsBefore": {kind: "string", text: "RFC 3339 time."},
	"newest":     {kind: "string", text: "true shows only the newest leaf of each holder and role.", enum: []any{"true", "false"}},
	"operator":   {kind: "string", text: "Operator id."},
	"cluster":    {kind: "string", text: "Cluster id."},
	"actor":      {kind: "string", text: "Who did it."},
	"event":      {kind: "string", text: "Name of the event."},
	"object":     {kind: "string", text: "Id of what changed."},
	"since":      {kind: "string", text: "RFC 3339 time of the earliest line."},
	"after":      {kind: "integer", text: "Sequence of the last line already known."},
}

func (p parameter) param(name string) *huma.Param {
	return &huma.Param{Name: name, In: "query", Description: p.text, Schema: &huma.Schema{Type: p.kind, Enum: p.enum}}
}

// checkQuery refuses a query that cannot be read, a parameter that the operation
// does not have and one that stands twice: a mistyped filter must not widen a list.
func checkQuery(raw string, allowed []string) error {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return malformed("The query cannot be read.")
	}
	for name, v := range values {
		if !slices.Contains(allowed, name) || len(v) != 1 {
			return malformed("The query has a parameter that is not known here, or one twice.")
		}
	}
	return nil
}

// page reads limit and cursor.
func (r *request) page() (operators.Page, error) {
	query := r.URL.Query()
	p := operators.Page{Cursor: query.Get("cursor")}
	if query.Has("limit") {
		n, err := strconv.Atoi(query.Get("limit"))
		if err != nil || n < 1 || n > 500 {
			return p, malformed("limit is a number from 1 to 500.")
		}
		p.Limit = n
	}
	return p, nil
}

// flag reads a parameter that is true or false.
func (r *request) flag(name string) (bool, error) {
	switch r.URL.Query().Get(name) {
	case "true":
		return true, nil
	case "false", "":
		return false, nil
	default:
		return false, malformed(name + " is true or false.")
	}
}

// instant reads a time; the zero time when it is absent.
func (r *request) instant(name string) (time.Time, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, malformed(name + " is an RFC 3339 time.")
	}
	return at.UTC(), nil
}

// oneOf reads a parameter that is one of a few words; "" when it is absent or
// empty.
func oneOf[T ~string](r *request, name string, words ...T) (T, error) {
	value := T(r.URL.Query().Get(name))
	if value != "" && !slices.Contains(words, value) {
		return "", malformed(name + " is not one of the words it takes.")
	}
	return value, nil
}

// waitOf reads ?wait=, whole seconds from 0 to most; 0 when it is absent.
func waitOf(query url.Values, most time.Duration) (time.Duration, error) {
	if !query.Has("wait") {
		return 0, nil
	}
	text := query.Get("wait")
	seconds, err := strconv.ParseUint(text, 10, 16)
	wait := time.Duration(seconds) * time.Second
	if err != nil || wait > most {
		return 0, malformed("wait is a number of whole seconds in its range.")
	}
	return wait, nil
}
