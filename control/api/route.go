// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"

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
			return out, malformed(err.Error())
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
