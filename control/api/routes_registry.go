// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"net/http"

	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// Queries that many operations share.
var (
	paged     = []string{"limit", "cursor"}
	withWait  = []string{"wait"}
	withForce = []string{"force", "wait"}
)

// registryPaths registers organisations, admin tokens and clusters.
func (s *Server) registryPaths() {
	ops := s.cfg.Operators
	admin(s, endpoint{method: http.MethodPost, path: "/api/v1/orgs", role: operators.RoleServer, status: http.StatusCreated,
		summary: "Create an organisation"},
		func(ctx context.Context, r *request, in operators.OrgRequest) (operators.Org, error) {
			return ops.CreateOrg(ctx, r.actor, in)
		})
	admin(s, endpoint{method: http.MethodGet, path: "/api/v1/orgs", role: operators.RoleServer, query: paged,
		summary: "List the organisations"},
		listing(func(ctx context.Context, r *request, p operators.Page) (operators.List[operators.Org], error) {
			return ops.ListOrgs(ctx, p)
		}))

	tokens := orgPath + "/admin-tokens"
	admin(s, endpoint{method: http.MethodPost, path: tokens, role: operators.RoleAdmin, status: http.StatusCreated,
		summary: "Create an admin token; the secret is shown once"},
		func(ctx context.Context, r *request, in operators.AdminTokenRequest) (operators.AdminToken, error) {
			return ops.CreateAdminToken(ctx, r.actor, in)
		})
	admin(s, endpoint{method: http.MethodGet, path: tokens, role: operators.RoleAdmin, query: paged, summary: "List the admin tokens"},
		listing(func(ctx context.Context, r *request, p operators.Page) (operators.List[operators.AdminToken], error) {
			return ops.ListAdminTokens(ctx, r.actor, p)
		}))
	admin(s, endpoint{method: http.MethodDelete, path: tokens + "/{token}", role: operators.RoleAdmin, summary: "Revoke an admin token"},
		func(ctx context.Context, r *request, _ none) (none, error) {
			return none{}, ops.RevokeAdminToken(ctx, r.actor, r.id("token"))
		})
	s.clusterPaths()
}

func (s *Server) clusterPaths() {
	ops, clusters := s.cfg.Operators, orgPath+"/clusters"
	admin(s, endpoint{method: http.MethodPut, path: clusters + "/{id}", role: operators.RoleConnector,
		summary: "Register a cluster, or change its kind, labels, tenant and silentAfter"},
		func(ctx context.Context, r *request, in operators.ClusterRequest) (answer[operators.Cluster], error) {
			if err := pathID(r, &in.ID); err != nil {
				return answer[operators.Cluster]{}, err
			}
			cluster, created, err := ops.PutCluster(ctx, r.actor, in)
			return answer[operators.Cluster]{statusOf(created), cluster}, err
		})
	admin(s, endpoint{method: http.MethodPost, path: clusters, role: operators.RoleConnector, status: http.StatusCreated,
		summary: "Register a cluster"},
		func(ctx context.Context, r *request, in operators.ClusterRequest) (operators.Cluster, error) {
			return ops.CreateCluster(ctx, r.actor, in)
		})
	admin(s, endpoint{method: http.MethodGet, path: clusters, role: operators.RoleViewer, query: []string{"limit", "cursor", "state", "kind"},
		summary: "List the clusters"},
		listing(func(ctx context.Context, r *request, p operators.Page) (list operators.List[operators.Cluster], err error) {
			var f operators.ClusterFilter
			if f.State, err = oneOf(r, "state", clusterStates...); err != nil {
				return list, err
			}
			if f.Kind, err = oneOf(r, "kind", clusterKinds...); err != nil {
				return list, err
			}
			return ops.ListClusters(ctx, r.actor, f, p)
		}))
	admin(s, endpoint{method: http.MethodGet, path: clusters + "/{id}", role: operators.RoleViewer, summary: "One cluster"},
		func(ctx context.Context, r *request, _ none) (operators.Cluster, error) {
			return ops.GetCluster(ctx, r.actor, r.id("id"))
		})
	admin(s, endpoint{method: http.MethodPost, path: clusters + "/{id}/approve", role: operators.RoleConnector,
		summary: "Approve a cluster, a revoked one again"},
		func(ctx context.Context, r *request, _ none) (operators.Cluster, error) {
			return ops.ApproveCluster(ctx, r.actor, r.id("id"))
		})
	admin(s, endpoint{method: http.MethodPost, path: clusters + "/{id}/revoke", role: operators.RoleAdmin, query: withWait, bodyOptional: true,
		summary: "Withdraw a cluster at every operator it sends to"},
		func(ctx context.Context, r *request, in operators.NoteRequest) (*controlapi.Receipt, error) {
			return s.receipted(ctx, r, func() (*controlapi.Receipt, error) {
				return ops.RevokeCluster(ctx, r.actor, r.id("id"), in)
			})
		})
	admin(s, endpoint{method: http.MethodDelete, path: clusters + "/{id}", role: operators.RoleAdmin, query: withWait,
		summary: "Revoke a cluster and take it off the lists"},
		func(ctx context.Context, r *request, _ none) (*controlapi.Receipt, error) {
			return s.receipted(ctx, r, func() (*controlapi.Receipt, error) { return ops.DeleteCluster(ctx, r.actor, r.id("id")) })
		})
}

// listing reads the page before it lists.
func listing[T any](list func(context.Context, *request, operators.Page) (operators.List[T], error)) func(context.Context, *request, none) (operators.List[T], error) {
	return func(ctx context.Context, r *request, _ none) (operators.List[T], error) {
		p, err := r.page()
		if err != nil {
			return operators.List[T]{}, err
		}
		return list(ctx, r, p)
	}
}

// pathID takes the id of a PUT from its path; a body that names another one is
// no request for this path.
func pathID(r *request, id *string) error {
	if *id != "" && *id != r.id("id") {
		return malformed("The id in the body is not the one in the path; leave it out of the body.")
	}
	*id = r.id("id")
	return nil
}

func statusOf(created bool) int {
	if created {
		return http.StatusCreated
	}
	return http.StatusOK
}

// receipted runs a revocation and, with ?wait=, waits for its confirmations.
func (s *Server) receipted(ctx context.Context, r *request, revoke func() (*controlapi.Receipt, error)) (*controlapi.Receipt, error) {
	wait, err := waitOf(r.URL.Query(), maxReceiptWait)
	if err != nil {
		return nil, err
	}
	receipt, err := revoke()
	if err != nil {
		return nil, err
	}
	return s.cfg.Policy.Receipt(ctx, r.actor.OrgID, receipt.ReceiptID, wait)
}
