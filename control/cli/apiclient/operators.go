// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package apiclient

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/ikhnos/continuum/control/api"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// CreateOrg makes an organisation; the answer holds its first admin token.
func (c *Client) CreateOrg(ctx context.Context, id, name string) (*operators.Org, error) {
	return call1[operators.Org](ctx, c, http.MethodPost, "/api/v1/orgs", nil, operators.OrgRequest{ID: id, Name: name})
}

// Orgs lists the organisations that the token may see.
func (c *Client) Orgs(ctx context.Context) ([]operators.Org, error) {
	return list[operators.Org](ctx, c, "/api/v1/orgs", nil)
}

// PutCluster registers a cluster under id or changes it.
func (c *Client) PutCluster(ctx context.Context, id string, r operators.ClusterRequest) (*operators.Cluster, error) {
	r.ID = ""
	return call1[operators.Cluster](ctx, c, http.MethodPut, c.inOrg("clusters", id), nil, r)
}

// CreateCluster registers a cluster whose id is in the request.
func (c *Client) CreateCluster(ctx context.Context, r operators.ClusterRequest) (*operators.Cluster, error) {
	return call1[operators.Cluster](ctx, c, http.MethodPost, c.inOrg("clusters"), nil, r)
}

// Clusters lists the organisation's clusters.
func (c *Client) Clusters(ctx context.Context) ([]operators.Cluster, error) {
	return list[operators.Cluster](ctx, c, c.inOrg("clusters"), nil)
}

// Cluster reads one cluster.
func (c *Client) Cluster(ctx context.Context, id string) (*operators.Cluster, error) {
	return call1[operators.Cluster](ctx, c, http.MethodGet, c.inOrg("clusters", id), nil, nil)
}

// ApproveCluster lets a registered cluster be connected.
func (c *Client) ApproveCluster(ctx context.Context, id string) (*operators.Cluster, error) {
	return call1[operators.Cluster](ctx, c, http.MethodPost, c.inOrg("clusters", id, "approve"), nil, nil)
}

// RevokeCluster cuts a cluster off at every operator it sends to, and waits up to
// wait (at most 10 s) for the operators to confirm.
func (c *Client) RevokeCluster(ctx context.Context, id, note string, wait time.Duration) (*controlapi.Receipt, error) {
	return call1[controlapi.Receipt](ctx, c.patient(wait), http.MethodPost,
		c.inOrg("clusters", id, "revoke"), waitQuery(wait), operators.NoteRequest{Note: note})
}

// DeleteCluster revokes a cluster and takes it off the list, and waits as
// RevokeCluster does.
func (c *Client) DeleteCluster(ctx context.Context, id string, wait time.Duration) (*controlapi.Receipt, error) {
	return call1[controlapi.Receipt](ctx, c.patient(wait), http.MethodDelete, c.inOrg("clusters", id), waitQuery(wait), nil)
}

// CreateOperator makes an operator and its CA.
func (c *Client) CreateOperator(ctx context.Context, r operators.OperatorRequest) (*operators.Operator, error) {
	return call1[operators.Operator](ctx, c, http.MethodPost, c.inOrg("operators"), nil, r)
}

// PutOperator makes an operator under id; the same content again changes nothing.
func (c *Client) PutOperator(ctx context.Context, id string, r operators.OperatorRequest) (*operators.Operator, error) {
	r.ID = ""
	return call1[operators.Operator](ctx, c, http.MethodPut, c.inOrg("operators", id), nil, r)
}

// Operators lists the organisation's operators.
func (c *Client) Operators(ctx context.Context) ([]operators.Operator, error) {
	return list[operators.Operator](ctx, c, c.inOrg("operators"), nil)
}

// Operator reads one operator.
func (c *Client) Operator(ctx context.Context, id string) (*operators.Operator, error) {
	return call1[operators.Operator](ctx, c, http.MethodGet, c.inOrg("operators", id), nil, nil)
}

// SetAddress records where senders elsewhere dial an operator: host[:port].
func (c *Client) SetAddress(ctx context.Context, id, address string) (*operators.Operator, error) {
	return call1[operators.Operator](ctx, c, http.MethodPatch, c.inOrg("operators", id), nil,
		operators.AddressRequest{Address: address})
}

// RevokeOperator ends an operator: its last policy denies everyone, its CA key is
// erased. Without force one that is still in use is refused with its dependents.
func (c *Client) RevokeOperator(ctx context.Context, id, note string, force bool, wait time.Duration) (*operators.Removal, error) {
	return call1[operators.Removal](ctx, c.patient(wait), http.MethodPost,
		c.inOrg("operators", id, "revoke"), forceQuery(force, waitQuery(wait)), operators.NoteRequest{Note: note})
}

// DeleteOperator revokes an operator and leaves a tombstone; it forces and waits as
// RevokeOperator does.
func (c *Client) DeleteOperator(ctx context.Context, id string, force bool, wait time.Duration) (*operators.Removal, error) {
	return call1[operators.Removal](ctx, c.patient(wait), http.MethodDelete, c.inOrg("operators", id), forceQuery(force, waitQuery(wait)), nil)
}

// MintHeartbeat makes or rotates the heartbeat secret of an operator.
func (c *Client) MintHeartbeat(ctx context.Context, id string) (*operators.HeartbeatSecret, error) {
	return call1[operators.HeartbeatSecret](ctx, c, http.MethodPost, c.inOrg("operators", id, "heartbeat"), nil, nil)
}

// CreateAdminToken makes an admin token; the answer alone holds the secret.
func (c *Client) CreateAdminToken(ctx context.Context, r operators.AdminTokenRequest) (*operators.AdminToken, error) {
	return call1[operators.AdminToken](ctx, c, http.MethodPost, c.inOrg("admin-tokens"), nil, r)
}

// AdminTokens lists the organisation's admin tokens.
func (c *Client) AdminTokens(ctx context.Context) ([]operators.AdminToken, error) {
	return list[operators.AdminToken](ctx, c, c.inOrg("admin-tokens"), nil)
}

// RevokeAdminToken ends an admin token at once.
func (c *Client) RevokeAdminToken(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, c.inOrg("admin-tokens", id), nil, nil, nil)
}

// patient is the same client with time for the server to wait.
func (c *Client) patient(wait time.Duration) *Client {
	if c.timeout == 0 || wait == 0 {
		return c
	}
	longer := *c
	longer.timeout += wait
	return &longer
}

// waitQuery asks for a wait in whole seconds, none for 0.
func waitQuery(wait time.Duration) url.Values {
	if wait <= 0 {
		return nil
	}
	seconds := int64((wait + time.Second - 1) / time.Second)
	return url.Values{"wait": {strconv.FormatInt(seconds, 10)}}
}

func forceQuery(force bool, query url.Values) url.Values {
	if !force {
		return query
	}
	if query == nil {
		query = url.Values{}
	}
	query.Set("force", "true")
	return query
}

// Instances tells what each instance of an operator enforces.
func (c *Client) Instances(ctx context.Context, id string) (*api.OperatorInstances, error) {
	return call1[api.OperatorInstances](ctx, c, http.MethodGet, c.inOrg("operators", id, "instances"), nil, nil)
}

// CA reads the CA of an operator.
func (c *Client) CA(ctx context.Context, id string) (*api.OperatorCA, error) {
	return call1[api.OperatorCA](ctx, c, http.MethodGet, c.inOrg("operators", id, "ca"), nil, nil)
}
