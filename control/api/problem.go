// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// refuse answers with the problem that err is, or with internal when it is none.
// It is the only place where a refusal is written, throttled and counted.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	c := callOf(r.Context())
	p := s.problemOf(r.Context(), err)
	if p.Status == http.StatusUnauthorized {
		if wait := s.throttle.fail(c.address); wait > 0 {
			p = controlapi.NewProblem(controlapi.ReasonRateLimited, "")
			w.Header().Set("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
		} else {
			w.Header().Set("WWW-Authenticate", challengeOf(p.Reason))
		}
	}
	if p.Detail == p.Title { // nothing is said of the case itself
		p.Detail = p.Reason.Info().Detail
	}
	p.Detail, p.RequestID = asSentence(p.Detail), c.requestID
	c.reason = p.Reason
	s.metrics.refusals.WithLabelValues(c.route, string(p.Reason)).Inc()

	body, err := json.Marshal(p)
	if err != nil {
		s.log.ErrorContext(r.Context(), "encoding a problem failed", slog.Any("error", err))
	}
	w.Header().Set("Content-Type", controlapi.ProblemContentType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_, _ = w.Write(body)
}

// problemOf turns what went wrong into a problem of its own that the caller may
// change. What is not one is logged in full here and answered without a word of
// it.
func (s *Server) problemOf(ctx context.Context, err error) *controlapi.Problem {
	var p *controlapi.Problem
	if errors.As(err, &p) {
		own := *p
		return &own
	}
	if ctx.Err() != nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return controlapi.NewProblem(controlapi.ReasonUnavailable, "")
	}
	s.log.ErrorContext(ctx, "request failed",
		slog.String("request_id", callOf(ctx).requestID), slog.Any("error", err))
	if ledger.Unavailable(err) { // a full disk, a database that is away
		return controlapi.NewProblem(controlapi.ReasonUnavailable, "")
	}
	return controlapi.NewProblem(controlapi.ReasonInternal, "")
}

// challengeOf is the scheme that a 401 asks for (RFC 9110, section 11.6.1).
func challengeOf(reason controlapi.Reason) string {
	switch reason {
	case controlapi.ReasonProofInvalid, controlapi.ReasonProofReplayed, controlapi.ReasonClockSkew, controlapi.ReasonLeafUnknown:
		return "Holder"
	default:
		return "Bearer"
	}
}

// invalid is the problem of one field that breaks a rule.
func invalid(field, detail string) *controlapi.Problem {
	return controlapi.Invalid(controlapi.FieldError{Field: field, Detail: detail})
}

// malformed is the problem of a request that cannot be read. detail is fixed
// text and never repeats the request.
func malformed(detail string) *controlapi.Problem {
	return controlapi.NewProblem(controlapi.ReasonRequestMalformed, detail)
}

// sentence makes an error of our own fit for a detail.
func sentence(err error) string { return asSentence(err.Error()) }

func asSentence(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + strings.TrimSuffix(text[size:], ".") + "."
}
