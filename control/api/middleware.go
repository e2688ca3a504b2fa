// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"runtime/debug"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/ikhnos/continuum/internal/controlapi"
)

// call is what the server knows of one request while it answers it. Only the
// request's own goroutine touches it.
type call struct {
	requestID string
	address   netip.Addr
	route     string // pattern of the mux, "" when none matched
	actor     string // admin token or holder, once known
	reason    controlapi.Reason
	machine   bool
}

type callKey struct{}

// callOf returns the call of a request's context; outside a request, an empty one.
func callOf(ctx context.Context) *call {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c
	}
	return &call{}
}

// RequestID is the id under which a request is logged and answered.
func RequestID(ctx context.Context) string { return callOf(ctx).requestID }

// Caller returns the id of a request and the address it came from, for a handler
// behind the API's own (Config.Web).
func (s *Server) Caller(r *http.Request) (requestID, address string) {
	c := callOf(r.Context())
	return c.requestID, c.address.String()
}

// Failed counts a credential that was refused elsewhere than in the API, such as
// a sign-in of the web page, in the same throttle. It returns how long the caller
// has to wait, zero while the failures are few.
func (s *Server) Failed(r *http.Request) time.Duration {
	return s.throttle.fail(callOf(r.Context()).address)
}

// wrap puts around a mux what every request needs: an id, the caller's address,
// one line in the log, metrics, and problems where the mux would answer text. web,
// when there is one, serves what is neither the API nor known to the mux.
func (s *Server) wrap(mux *http.ServeMux, web http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &call{requestID: rand.Text(), address: s.clientAddress(r)}
		r = r.WithContext(context.WithValue(r.Context(), callKey{}, c))
		rec := &recorder{ResponseWriter: w}
		h := rec.Header()
		h.Set("X-Request-Id", c.requestID)
		h.Set("X-Content-Type-Options", "nosniff")
		start := s.now()
		defer func() {
			s.recover(rec, r, recover())
			s.metrics.observe(r.Method, c.route, rec.status, s.now().Sub(start))
			s.logAccess(r, c, rec, s.now().Sub(start).Milliseconds())
		}()
		s.route(mux, web, rec, r)
	})
}

// recover answers a request whose handler panicked. The mux' own signal to drop
// the connection passes on.
func (s *Server) recover(w *recorder, r *http.Request, cause any) {
	if cause == nil {
		return
	}
	if err, ok := cause.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(cause)
	}
	s.log.ErrorContext(r.Context(), "request handler panicked", slog.String("request_id", callOf(r.Context()).requestID),
		slog.Any("cause", cause), slog.String("stack", string(debug.Stack())))
	if w.status == 0 {
		s.refuse(w, r, controlapi.NewProblem(controlapi.ReasonInternal, ""))
	}
}

// route lets the mux answer what it knows and turns its own plain 404, 405 and
// redirects into problems.
func (s *Server) route(mux *http.ServeMux, web http.Handler, w http.ResponseWriter, r *http.Request) {
	if !storable(r.URL.Path) { // it names nothing, and may not reach the database
		r.URL.Path, r.URL.RawPath = strings.ReplaceAll(strings.ToValidUTF8(r.URL.Path, "\uFFFD"), "\x00", "\uFFFD"), ""
	}
	handler, pattern := mux.Handler(r)
	clean := path.Clean("/"+r.URL.Path) == r.URL.Path
	if pattern != "" && clean {
		callOf(r.Context()).route = pattern
		trace.SpanFromContext(r.Context()).SetName(pattern)
		mux.ServeHTTP(w, r)
		return
	}
	answer := &discard{header: http.Header{}}
	if pattern == "" {
		handler.ServeHTTP(answer, r)
	}
	switch {
	case answer.status == http.StatusMethodNotAllowed:
		allow := answer.header.Get("Allow")
		w.Header().Set("Allow", allow)
		s.refuse(w, r, controlapi.NewProblem(controlapi.ReasonMethodNotAllowed, "This path takes "+allow+" alone."))
	case web != nil && clean && !strings.HasPrefix(r.URL.Path, "/api/"):
		callOf(r.Context()).route = "web"
		if query, err := url.QueryUnescape(r.URL.RawQuery); err == nil && !storable(query) {
			s.refuse(w, r, malformed(oddQuery))
			return
		}
		web.ServeHTTP(w, r)
	default:
		s.refuse(w, r, controlapi.NewProblem(controlapi.ReasonNotFound, "No operation has this path at this address; /api/openapi.json, where the administration listens, lists all of them."))
	}
}

// logAccess writes one line a request: machine paths that succeed at debug, for
// there are thousands a second; never a query, a header or a body.
func (s *Server) logAccess(r *http.Request, c *call, w *recorder, ms int64) {
	level := slog.LevelInfo
	if w.status < http.StatusBadRequest && (c.machine || c.actor == "") {
		level = slog.LevelDebug
	}
	s.log.LogAttrs(r.Context(), level, "request",
		slog.String("request_id", c.requestID), slog.String("method", r.Method), slog.String("route", c.route),
		slog.Int("status", w.status), slog.String("reason", string(c.reason)), slog.Int64("duration_ms", ms),
		slog.String("address", c.address.String()), slog.String("actor", c.actor))
}

// recorder remembers the status of an answer.
type recorder struct {
	http.ResponseWriter
	status int // 0 until the header is written
}

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// discard keeps status and header of an answer and drops its body.
type discard struct {
	header http.Header
	status int
}

func (w *discard) Header() http.Header         { return w.header }
func (w *discard) WriteHeader(status int)      { w.status = status }
func (w *discard) Write(p []byte) (int, error) { return len(p), nil }
