// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"regexp"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// orgPath is the prefix of everything that belongs to an organisation.
const orgPath = "/api/v1/orgs/{org}"

// endpoint describes one operation of the administration.
type endpoint struct {
	method, path string
	summary      string
	role         operators.AdminRole // the smallest role that may
	status       int                 // of a success; 0 means 200
	query        []string            // names of query parameters, see parameters
	bodyOptional bool                // an empty body is an empty object

	// For the API document alone.
	security    string // scheme of a machine path; an administration's follows from role
	media       string // media type of a success that is not JSON
	conditional bool   // If-None-Match is honoured
}

// none stands for a body that is not there: {} is read, nothing is written.
type none struct{}

// request is an authenticated call of the administration.
type request struct {
	*http.Request
	w     http.ResponseWriter
	actor operators.Actor
}

// id returns an element of the path, {name} in the pattern.
func (r *request) id(name string) string { return r.PathValue(name) }

// answer lets a handler choose the status of its success.
type answer[T any] struct {
	status int
	body   T
}

// admin registers an operation. The organisation and the role are checked before
// the body is read, and the body before the object is looked up.
func admin[In, Out any](s *Server, e endpoint, fn func(ctx context.Context, r *request, in In) (Out, error)) {
	op := s.describe(e, reflect.TypeFor[In](), reflect.TypeFor[Out]())
	s.adminAPI.Handle(op, func(hc huma.Context) {
		hr, w := humago.Unwrap(hc)
		r := &request{Request: hr, w: w}
		out, err := serve(s, r, e, fn)
		if err != nil {
			s.refuse(w, hr, err)
			return
		}
		s.reply(w, hr, e.status, out)
	})
}

func serve[In, Out any](s *Server, r *request, e endpoint, fn func(context.Context, *request, In) (Out, error)) (Out, error) {
	var in In
	var out Out
	actor, err := s.authorize(r.Request, e.role)
	if err != nil {
		return out, err
	}
	r.actor = actor
	if err := checkQuery(r.URL.RawQuery, e.query); err != nil {
		return out, err
	}
	if e.method != http.MethodGet {
		body, err := readBody(r.w, r.Request, controlapi.MaxBodyBytes, false)
		if err != nil {
			return out, err
		}
		if len(body) == 0 && (e.bodyOptional || reflect.TypeFor[In]() == reflect.TypeFor[none]()) {
			body = []byte("{}")
		}
		if err := decodeStrict(body, &in); err != nil {
			return out, malformed(sentence(err))
		}
	}
	return fn(r.Context(), r, in)
}

// reply writes a success. Answers may hold secrets, so nothing may keep them.
func (s *Server) reply(w http.ResponseWriter, r *http.Request, status int, out any) {
	if a, ok := out.(interface{ unpack() (int, any) }); ok {
		status, out = a.unpack()
	}
	if status == 0 {
		status = http.StatusOK
	}
	w.Header().Set("Cache-Control", "no-store")
	if _, empty := out.(none); empty {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	body, err := json.Marshal(out)
	if err != nil {
		s.refuse(w, r, fmt.Errorf("encoding the answer: %w", err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if _, err := w.Write(body); err != nil {
		s.log.DebugContext(r.Context(), "writing an answer failed", slog.Any("error", err))
	}
}

func (a answer[T]) unpack() (int, any)     { return a.status, a.body }
func (a answer[T]) bodyType() reflect.Type { return reflect.TypeFor[T]() }

// sentence makes an error of our own fit for a detail.
func sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// describe enters an operation into the API document.
func (s *Server) describe(e endpoint, in, out reflect.Type) *huma.Operation {
	schemas := s.document.Components.Schemas
	op := &huma.Operation{
		OperationID: operationID(e.method, e.path),
		Method:      e.method,
		Path:        e.path,
		Summary:     e.summary,
		Responses:   map[string]*huma.Response{"default": problemResponse},
	}
	if e.role != "" {
		e.security = "adminToken"
		op.Description = "Smallest role: " + string(e.role) + "."
	}
	if e.security != "" {
		op.Security = []map[string][]string{{e.security: {}}}
	}
	for _, name := range pathParameter.FindAllStringSubmatch(e.path, -1) {
		op.Parameters = append(op.Parameters, &huma.Param{Name: name[1], In: "path", Required: true, Schema: &huma.Schema{Type: "string"}})
	}
	for _, name := range e.query {
		op.Parameters = append(op.Parameters, parameters[name].param(name))
	}
	if in != reflect.TypeFor[none]() {
		op.RequestBody = &huma.RequestBody{Required: !e.bodyOptional, Content: map[string]*huma.MediaType{
			"application/json": {Schema: schemas.Schema(in, true, in.Name())},
		}}
	}
	if e.conditional {
		op.Parameters = append(op.Parameters, &huma.Param{Name: "If-None-Match", In: "header", Schema: &huma.Schema{Type: "string"}})
		op.Responses[fmt.Sprint(http.StatusNotModified)] = &huma.Response{Description: "Nothing has changed"}
	}
	status, success := s.describeSuccess(e, out)
	op.Responses[fmt.Sprint(status)] = success
	s.document.AddOperation(op)
	return op
}

// describeSuccess is what an operation answers that succeeds, and its status.
func (s *Server) describeSuccess(e endpoint, out reflect.Type) (int, *huma.Response) {
	if a, ok := reflect.Zero(out).Interface().(interface{ bodyType() reflect.Type }); ok {
		out = a.bodyType()
	}
	success := &huma.Response{Description: "Done"}
	switch {
	case e.media != "":
		success.Content = map[string]*huma.MediaType{e.media: {Schema: &huma.Schema{Type: "string"}}}
	case out != reflect.TypeFor[none]():
		success.Content = map[string]*huma.MediaType{"application/json": {Schema: s.document.Components.Schemas.Schema(out, true, out.Name())}}
	case e.status == 0:
		return http.StatusNoContent, success
	}
	return cmp.Or(e.status, http.StatusOK), success
}

var pathParameter = regexp.MustCompile(`\{([a-z]+)\}`)

// operationID is a stable name for generated clients: put-orgs-clusters.
func operationID(method, path string) string {
	words := []string{strings.ToLower(method)}
	for _, element := range strings.Split(strings.TrimPrefix(path, "/api/"), "/") {
		if element != "v1" {
			words = append(words, strings.Trim(element, "{}"))
		}
	}
	return strings.Join(words, "-")
}

var problemResponse = &huma.Response{
	Description: "A refusal: RFC 9457 with a reason of the closed list",
	Content:     map[string]*huma.MediaType{controlapi.ProblemContentType: {Schema: &huma.Schema{Ref: "#/components/schemas/Problem"}}},
}
