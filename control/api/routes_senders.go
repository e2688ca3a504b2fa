// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"net/http"

	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// senderPaths registers who may send where, and the tokens by which they enrol.
func (s *Server) senderPaths() {
	ops, one := s.cfg.Operators, operatorPath+"/senders/{holder}"
	admin(s, endpoint{method: http.MethodPut, path: one, role: operators.RoleConnector, bodyOptional: true, summary: "Connect a cluster or an operator"},
		func(ctx context.Context, r *request, in operators.SenderRequest) (answer[operators.Sender], error) {
			sender, created, err := ops.ConnectSender(ctx, r.actor, r.id("id"), r.id("holder"), in)
			return answer[operators.Sender]{statusOf(created), sender}, err
		})
	admin(s, endpoint{method: http.MethodPost, path: one + "/revoke", role: operators.RoleAdmin, query: withWait, summary: "Cut a sender off, or hold it"},
		func(ctx context.Context, r *request, in operators.RevokeRequest) (*controlapi.Receipt, error) {
			return s.receipted(ctx, r, func() (*controlapi.Receipt, error) {
				return ops.RevokeSender(ctx, r.actor, r.id("id"), r.id("holder"), in)
			})
		})
	admin(s, endpoint{method: http.MethodPost, path: one + "/restore", role: operators.RoleAdmin, summary: "Let a sender in again"},
		func(ctx context.Context, r *request, _ none) (operators.SenderToken, error) {
			return ops.RestoreSender(ctx, r.actor, r.id("id"), r.id("holder"))
		})
	admin(s, endpoint{method: http.MethodPost, path: one + "/rekey", role: operators.RoleAdmin, bodyOptional: true, summary: "Replace a sender's key without loss"},
		func(ctx context.Context, r *request, in operators.RekeyRequest) (operators.SenderToken, error) {
			return ops.RekeySender(ctx, r.actor, r.id("id"), r.id("holder"), in)
		})

	tokens := operatorPath + "/enrollment-tokens"
	admin(s, endpoint{method: http.MethodPost, path: tokens, role: operators.RoleConnector, status: http.StatusCreated,
		summary: "Mint a one-use enrolment token, shown once"},
		func(ctx context.Context, r *request, in operators.TokenRequest) (operators.Token, error) {
			return ops.MintToken(ctx, r.actor, r.id("id"), in)
		})
	admin(s, endpoint{method: http.MethodGet, path: tokens, role: operators.RoleConnector, query: paged, summary: "List the enrolment tokens"},
		listing(func(ctx context.Context, r *request, p operators.Page) (operators.List[operators.Token], error) {
			return ops.ListTokens(ctx, r.actor, r.id("id"), p)
		}))
	admin(s, endpoint{method: http.MethodDelete, path: tokens + "/{token}", role: operators.RoleConnector, summary: "Revoke an enrolment token"},
		func(ctx context.Context, r *request, _ none) (none, error) {
			return none{}, ops.RevokeToken(ctx, r.actor, r.id("id"), r.id("token"))
		})
}
