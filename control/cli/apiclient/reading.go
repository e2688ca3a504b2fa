// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package apiclient

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/ikhnos/continuum/control/api"
	"github.com/ikhnos/continuum/control/audit/trail"
	"github.com/ikhnos/continuum/control/install"
	"github.com/ikhnos/continuum/control/liveness"
	"github.com/ikhnos/continuum/control/operators"
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
// empty words are the server's defaults.
func (c *Client) Install(ctx context.Context, operatorID, format string, keys operators.KeySource) (*api.Install, error) {
	return call1[api.Install](ctx, c, http.MethodPost, c.inOrg("operators", operatorID, "install"), nil, api.InstallRequest{Format: install.Format(format), Keys: keys})
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

// Health is what a server's answer says beside its content.
type Health struct {
	Date            string    // the header, in whole seconds
	CertificateEnds time.Time // of the server's own certificate
}

// Health asks whether a control server answers, without the admin token.
func (c *Client) Health(ctx context.Context) (*Health, error) {
	if c.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base.String()+"/healthz", nil)
	if err != nil {
		return nil, fmt.Errorf("building the request: %w", err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, &UnreachableError{fmt.Errorf("status %d: not the answer of a control server", resp.StatusCode)}
	}
	return &Health{resp.Header.Get("Date"), resp.TLS.PeerCertificates[0].NotAfter}, nil
}
