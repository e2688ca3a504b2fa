// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// maxReceiptWait is the longest ?wait= of a revocation or a receipt.
const maxReceiptWait = 10 * time.Second

// parameter describes a query parameter in the API document.
type parameter struct {
	kind, format, text string
	words              []any
	least, most, usual *float64 // of a number: its bounds and what it is when absent
}

// parameters are all query parameters there are, by name, and by path and name
// where one operation takes it in its own way.
var parameters = map[string]parameter{
	"limit":      {kind: "integer", text: "Items of one page.", least: number(1), most: number(500), usual: number(100)},
	"cursor":     {kind: "string", text: "The nextCursor of the page before."},
	"force":      {kind: "string", text: "true goes on although something depends on it.", words: words("true", "false")},
	"wait":       {kind: "integer", text: "Whole seconds to wait for confirmations.", least: number(0), most: number(maxReceiptWait.Seconds()), usual: number(0)},
	"kind":       {kind: "string", text: "Kind.", words: words(clusterKinds...)},
	"holder":     {kind: "string", text: "Whole name of the holder."},
	"role":       {kind: "string", text: "Role of the leaf.", words: words(leafRoles...)},
	"state":      {kind: "string", text: "State.", words: words(leafStates...)},
	"endsBefore": {kind: "string", format: "date-time", text: "Leaves that end before this time."},
	"newest":     {kind: "string", text: "true shows only the newest leaf of each holder and role.", words: words("true", "false")},
	"operator":   {kind: "string", text: "Operator id."},
	"cluster":    {kind: "string", text: "Id of the cluster or operator that sends."},
	"actor":      {kind: "string", text: "Who did it."},
	"event":      {kind: "string", text: "Name of the event."},
	"object":     {kind: "string", text: "Id of what changed."},
	"since":      {kind: "string", format: "date-time", text: "Time of the earliest line."},
	"after":      {kind: "integer", text: "Sequence of the last line already known; an answer has at most " + strconv.Itoa(ledgerLines) + " lines.", least: number(0), usual: number(0)},

	controlapi.RoutePolicy + "?wait": {kind: "integer", text: "Whole seconds to wait for another policy.", least: number(0), most: number(controlapi.MaxPolicyWait), usual: number(0)},
	orgPath + "/clusters?state":      {kind: "string", text: "State.", words: words(clusterStates...)},
	orgPath + "/operators?state":     {kind: "string", text: "State.", words: words(operatorStates...)},
	orgPath + "/operators?role":      {kind: "string", text: "Role of the operator.", words: words(operatorRoles...)},
	orgPath + "/senders?state":       {kind: "string", text: "What is decided about the sender, or how it does.", words: words(senderWords()...)},
}

// parameterOf is the parameter of that name as an operation of that path takes it.
func parameterOf(path, name string) parameter {
	if own, ok := parameters[path+"?"+name]; ok {
		return own
	}
	return parameters[name]
}

func number(n float64) *float64 { return &n }

func (p parameter) param(name string) *huma.Param {
	s := &huma.Schema{Type: p.kind, Format: p.format, Enum: p.words, Minimum: p.least, Maximum: p.most}
	if p.usual != nil {
		s.Default = *p.usual
	}
	return &huma.Param{Name: name, In: "query", Description: p.text, Schema: s}
}

// pathParam describes an element of a path.
func pathParam(path, name string) *huma.Param {
	text := map[string]string{
		"org": "Organisation id.", "holder": "Id of the cluster or operator that sends.", "serial": "Serial of the leaf, lower-case hex of even length.",
		"token": "Id of the token, never its secret.", "receipt": "Receipt id.", "id": "Operator id.", "reason": "A reason of the closed list.",
	}[name]
	if strings.HasPrefix(path, orgPath+"/clusters/") {
		text = "Cluster id."
	}
	return &huma.Param{Name: name, In: "path", Required: true, Description: text, Schema: &huma.Schema{Type: "string"}}
}

// checkQuery refuses a query that cannot be read, a parameter that the operation
// does not have and one that stands twice: a mistyped filter must not widen a list.
func checkQuery(raw string, allowed []string) error {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return malformed("The query cannot be read: it has an escape that is cut off, or a semicolon.")
	}
	for name, v := range values {
		switch {
		case !storable(strings.Join(v, "")):
			return malformed(oddQuery)
		case len(allowed) == 0:
			return malformed("This operation takes no query.")
		case !slices.Contains(allowed, name):
			return malformed("The query has a parameter that this operation does not take; it takes: " + strings.Join(allowed, ", ") + ".")
		case len(v) != 1:
			return malformed("The query has the parameter " + name + " twice.")
		}
	}
	return nil
}

// oddQuery is what is said of a query that no list can be searched for.
const oddQuery = "The query has text that is not UTF-8, or a NUL."

// storable reports whether every database takes a text.
func storable(text string) bool { return utf8.ValidString(text) && !strings.ContainsRune(text, 0) }

// page reads limit and cursor.
func (r *request) page() (operators.Page, error) {
	query := r.URL.Query()
	p := operators.Page{Cursor: query.Get("cursor")}
	if key, err := base64.RawURLEncoding.DecodeString(p.Cursor); err == nil && bytes.Contains(key, []byte(`\u0000`)) {
		return p, malformed("The cursor did not come from this list; begin without one.")
	}
	if query.Has("limit") {
		n, err := strconv.Atoi(query.Get("limit"))
		if err != nil || n < 1 || n > 500 {
			return p, malformed("The parameter limit is a number from 1 to 500.")
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
		return false, malformed("The parameter " + name + " is true or false.")
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
		return time.Time{}, malformed("The parameter " + name + " is an RFC 3339 time, such as 2026-01-31T12:00:00Z.")
	}
	return at.UTC(), nil
}

// oneOf reads a parameter that is one of a few words; "" when it is absent or
// empty.
func oneOf[T ~string](r *request, name string, words ...T) (T, error) {
	value := T(r.URL.Query().Get(name))
	if value != "" && !slices.Contains(words, value) {
		return "", malformed("The parameter " + name + " takes one of: " + wordList(words) + ".")
	}
	return value, nil
}

func wordList[T ~string](words []T) string {
	list := make([]string, len(words))
	for i, word := range words {
		list[i] = string(word)
	}
	return strings.Join(list, ", ")
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
		return 0, malformed(fmt.Sprintf("The parameter wait is a number of whole seconds from 0 to %d.", int(most.Seconds())))
	}
	return wait, nil
}
