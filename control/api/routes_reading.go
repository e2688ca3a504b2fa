// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"net/http"
	"slices"

	"github.com/ikhnos/continuum/control/liveness"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// readingPaths registers who sends, what needs attention, and the audit trail.
func (s *Server) readingPaths() {
	admin(s, endpoint{method: http.MethodGet, path: operatorPath + "/senders", role: operators.RoleViewer, query: paged, summary: "Who may send to an operator, and who does"},
		listing(func(ctx context.Context, r *request, p operators.Page) (list operators.List[liveness.SenderStatus], err error) {
			senders, err := s.cfg.Operators.ListSenders(ctx, r.actor, r.id("id"), p)
			if err != nil {
				return list, err
			}
			return s.described(ctx, r, senders, "")
		}))
	admin(s, endpoint{method: http.MethodGet, path: operatorPath + "/senders/{holder}", role: operators.RoleViewer, summary: "One sender"},
		func(ctx context.Context, r *request, _ none) (out liveness.SenderStatus, err error) {
			sender, err := s.cfg.Operators.GetSender(ctx, r.actor, r.id("id"), r.id("holder"))
			if err != nil {
				return out, err
			}
			statuses, err := s.cfg.Liveness.Describe(ctx, []operators.Sender{sender})
			if err != nil {
				return out, err
			}
			return statuses[0], nil
		})
	admin(s, endpoint{method: http.MethodGet, path: orgPath + "/senders", role: operators.RoleViewer,
		query: []string{"limit", "cursor", "operator", "cluster", "state"}, summary: "Who sends, at all operators"},
		listing(s.findSenders))
	admin(s, endpoint{method: http.MethodGet, path: orgPath + "/summary", role: operators.RoleViewer, summary: "What needs attention"},
		func(ctx context.Context, r *request, _ none) (*liveness.Summary, error) {
			return s.cfg.Liveness.Summarize(ctx, r.actor, s.cfg.Operators)
		})
	admin(s, endpoint{method: http.MethodGet, path: orgPath + "/audit", role: operators.RoleViewer,
		query: []string{"limit", "cursor", "actor", "event", "object", "since"}, summary: "Who changed what, the newest first"},
		listing(s.auditTrail))
}

// findSenders takes as state both what is decided about a sender and the word
// for how it does.
func (s *Server) findSenders(ctx context.Context, r *request, p operators.Page) (list operators.List[liveness.SenderStatus], err error) {
	query := r.URL.Query()
	f := operators.SenderFilter{OperatorID: query.Get("operator"), HolderID: query.Get("cluster")}
	state, err := oneOf(r, "state", senderWords()...)
	if err != nil {
		return list, err
	}
	status := ""
	if decided := controlapi.SenderState(state); slices.Contains(senderStates, decided) {
		f.State = decided
	} else {
		status = state
	}
	senders, err := s.cfg.Operators.FindSenders(ctx, r.actor, f, p)
	if err != nil {
		return list, err
	}
	return s.described(ctx, r, senders, status)
}

// described adds to a page of senders how they do. With a status, a page may
// hold fewer items than asked for although more follow.
func (s *Server) described(ctx context.Context, r *request, senders operators.List[operators.Sender], status string) (list operators.List[liveness.SenderStatus], err error) {
	list.NextCursor = senders.NextCursor
	list.Items, err = s.cfg.Liveness.Describe(ctx, senders.Items)
	if status != "" {
		list.Items = slices.DeleteFunc(list.Items, func(one liveness.SenderStatus) bool { return one.Status != status })
	}
	return list, err
}
