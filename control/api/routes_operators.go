// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"net/http"

	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// operatorPath is the path of one operator.
const operatorPath = orgPath + "/operators/{id}"

// AddressBody is an [operators.AddressRequest] that tells a body without an address
// from one that forgets it.
type AddressBody struct {
	Address *string `json:"address" nullable:"false" doc:"host or host:port at which senders elsewhere dial the operator; the port is 4317 when left out. Empty forgets it."`
}

// operatorPaths registers the life of an operator.
func (s *Server) operatorPaths() {
	ops, list := s.cfg.Operators, orgPath+"/operators"
	admin(s, endpoint{method: http.MethodPut, path: operatorPath, role: operators.RoleAdmin, summary: "Create an operator under a chosen id; may be repeated"},
		func(ctx context.Context, r *request, in operators.OperatorRequest) (answer[operators.Operator], error) {
			if err := pathID(r, &in.ID); err != nil {
				return answer[operators.Operator]{}, err
			}
			op, created, err := ops.PutOperator(ctx, r.actor, in)
			if err != nil {
				return answer[operators.Operator]{}, err
			}
			op, err = s.withHealth(ctx, r, op)
			return answer[operators.Operator]{statusOf(created), op}, err
		})
	admin(s, endpoint{method: http.MethodPost, path: list, role: operators.RoleAdmin, status: http.StatusCreated, summary: "Create an operator"},
		func(ctx context.Context, r *request, in operators.OperatorRequest) (operators.Operator, error) {
			op, err := ops.CreateOperator(ctx, r.actor, in)
			if err != nil {
				return op, err
			}
			return s.withHealth(ctx, r, op)
		})
	admin(s, endpoint{method: http.MethodGet, path: list, role: operators.RoleViewer, query: []string{"limit", "cursor", "state", "role"}, summary: "List the operators"},
		listing(s.listOperators))
	admin(s, endpoint{method: http.MethodGet, path: operatorPath, role: operators.RoleViewer, summary: "One operator"},
		func(ctx context.Context, r *request, _ none) (operators.Operator, error) {
			op, err := ops.GetOperator(ctx, r.actor, r.id("id"))
			if err != nil {
				return op, err
			}
			return s.withHealth(ctx, r, op)
		})
	admin(s, endpoint{method: http.MethodPatch, path: operatorPath, role: operators.RoleAdmin, summary: "Record where senders elsewhere dial it"},
		func(ctx context.Context, r *request, in AddressBody) (operators.Operator, error) {
			if in.Address == nil {
				return operators.Operator{}, invalid("address", "is needed; an empty one forgets the recorded address")
			}
			op, err := ops.SetAddress(ctx, r.actor, r.id("id"), operators.AddressRequest{Address: *in.Address})
			if err != nil {
				return op, err
			}
			return s.withHealth(ctx, r, op)
		})
	admin(s, endpoint{method: http.MethodPost, path: operatorPath + "/revoke", role: operators.RoleAdmin, query: withForce, bodyOptional: true,
		summary: "Revoke an operator: its leaves, its CA key, its entry at its destination"},
		func(ctx context.Context, r *request, in operators.NoteRequest) (operators.Removal, error) {
			return s.removed(ctx, r, func(force bool) (operators.Removal, error) {
				return ops.RevokeOperator(ctx, r.actor, r.id("id"), operators.RemovalRequest{Force: force, Note: in.Note})
			})
		})
	admin(s, endpoint{method: http.MethodDelete, path: operatorPath, role: operators.RoleAdmin, query: withForce, summary: "Revoke an operator and take it off the lists"},
		func(ctx context.Context, r *request, _ none) (operators.Removal, error) {
			return s.removed(ctx, r, func(force bool) (operators.Removal, error) {
				return ops.DeleteOperator(ctx, r.actor, r.id("id"), operators.RemovalRequest{Force: force})
			})
		})
	admin(s, endpoint{method: http.MethodPost, path: operatorPath + "/install", role: operators.RoleConnector, bodyOptional: true,
		summary: "The install commands again, with fresh secrets"}, s.install)
	admin(s, endpoint{method: http.MethodPost, path: operatorPath + "/heartbeat", role: operators.RoleAdmin, summary: "Mint or rotate the heartbeat secret, shown once"},
		func(ctx context.Context, r *request, _ none) (operators.HeartbeatSecret, error) {
			return ops.MintHeartbeat(ctx, r.actor, r.id("id"))
		})
}

func (s *Server) listOperators(ctx context.Context, r *request, p operators.Page) (list operators.List[operators.Operator], err error) {
	var f operators.OperatorFilter
	if f.State, err = oneOf(r, "state", operatorStates...); err != nil {
		return list, err
	}
	if f.Role, err = oneOf(r, "role", operatorRoles...); err != nil {
		return list, err
	}
	if list, err = s.cfg.Operators.ListOperators(ctx, r.actor, f, p); err != nil {
		return list, err
	}
	items := make([]*operators.Operator, len(list.Items))
	for i := range list.Items {
		items[i] = &list.Items[i]
	}
	return list, s.cfg.Liveness.Judge(ctx, r.actor.OrgID, items...)
}

// withHealth fills in what is computed when an operator is read (HS-1).
func (s *Server) withHealth(ctx context.Context, r *request, op operators.Operator) (operators.Operator, error) {
	err := s.cfg.Liveness.Judge(ctx, r.actor.OrgID, &op)
	return op, err
}

// removed runs the revocation or deletion of an operator and, with ?wait=, waits
// for its confirmations.
func (s *Server) removed(ctx context.Context, r *request, remove func(force bool) (operators.Removal, error)) (out operators.Removal, err error) {
	force, err := r.flag("force")
	if err != nil {
		return out, err
	}
	receipt, err := s.receipted(ctx, r, func() (*controlapi.Receipt, error) {
		if out, err = remove(force); err != nil {
			return nil, err
		}
		return &out.Receipt, nil
	})
	if err != nil {
		return operators.Removal{}, err
	}
	out.Receipt = *receipt
	return out, nil
}
