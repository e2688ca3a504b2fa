// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package apiclient

import (
	"context"
	"net/http"
	"time"

	"github.com/ikhnos/continuum/control/api"
	"github.com/ikhnos/continuum/control/audit/trail"
	"github.com/ikhnos/continuum/control/liveness"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// SenderFilter chooses senders; empty fields do not restrict. Cluster is the id
// of a cluster or of a sending operator, State what is decided about a sender or
// the word for how it does.
type SenderFilter struct {
	Operator, Cluster, State string
}

// Senders lists senders of the whole organisation with what their operators
// reported of them.
func (c *Client) Senders(ctx context.Context, f SenderFilter) ([]liveness.SenderStatus, error) {
	return list[liveness.SenderStatus](ctx, c, c.inOrg("senders"), query("operator", f.Operator, "cluster", f.Cluster, "state", f.State))
}

// OperatorSenders lists who may send to one operator, and who does.
func (c *Client) OperatorSenders(ctx context.Context, operatorID string) ([]liveness.SenderStatus, error) {
	return list[liveness.SenderStatus](ctx, c, c.inOrg("operators", operatorID, "senders"), nil)
}

// Sender reads one sender.
func (c *Client) Sender(ctx context.Context, operatorID, holderID string) (*liveness.SenderStatus, error) {
	return call1[liveness.SenderStatus](ctx, c, http.MethodGet, c.inOrg("operators", operatorID, "senders", holderID), nil, nil)
}

// Summary is what needs attention in the organisation.
func (c *Client) Summary(ctx context.Context) (*liveness.Summary, error) {
	return call1[liveness.Summary](ctx, c, http.MethodGet, c.inOrg("summary"), nil, nil)
}

// AuditFilter chooses lines of the audit trail; empty fields do not restrict.
type AuditFilter struct {
	Actor, Event, Object string
	Since                time.Time
}

// Audit lists the audit trail of the organisation, the newest first.
func (c *Client) Audit(ctx context.Context, f AuditFilter) ([]trail.Record, error) {
	filter := query("actor", f.Actor, "event", f.Event, "object", f.Object)
	if !f.Since.IsZero() {
		filter.Set("since", controlapi.Seconds(f.Since).Format(time.RFC3339))
	}
	return list[trail.Record](ctx, c, c.inOrg("audit"), filter)
}

// Install mints fresh secrets for an operator and returns its install commands;
// an empty format is the server's default.
func (c *Client) Install(ctx context.Context, operatorID, format string) (*api.Install, error) {
	return call1[api.Install](ctx, c, http.MethodPost, c.inOrg("operators", operatorID, "install"), nil, api.InstallRequest{Format: format})
}

// ServerVersion is the version of the control server.
func (c *Client) ServerVersion(ctx context.Context) (string, error) {
	var document struct {
		Info struct {
			Version string `json:"version"`
		} `json:"info"`
	}
	err := c.call(ctx, http.MethodGet, "/api/openapi.json", nil, nil, &document)
	return document.Info.Version, err
}
