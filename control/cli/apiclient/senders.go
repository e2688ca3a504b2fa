// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package apiclient

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// ConnectSender lets a cluster or an operator send to an operator. address is
// host[:port] where it dials another one than the operator's own.
func (c *Client) ConnectSender(ctx context.Context, operatorID, holderID, address string) (*operators.Sender, error) {
	return call1[operators.Sender](ctx, c, http.MethodPut, c.inOrg("operators", operatorID, "senders", holderID), nil,
		operators.SenderRequest{Address: address})
}

// RevokeSender cuts a sender off, or holds it, and waits up to wait (at most 10 s)
// for the operator to confirm.
func (c *Client) RevokeSender(ctx context.Context, operatorID, holderID string, reason operators.RevokeReason, note string, wait time.Duration) (*controlapi.Receipt, error) {
	return call1[controlapi.Receipt](ctx, c.patient(wait), http.MethodPost,
		c.inOrg("operators", operatorID, "senders", holderID, "revoke"), waitQuery(wait),
		operators.RevokeRequest{Reason: reason, Note: note})
}

// RestoreSender lets a sender in again; after a revocation the answer holds a new
// enrolment token.
func (c *Client) RestoreSender(ctx context.Context, operatorID, holderID string) (*operators.SenderToken, error) {
	return call1[operators.SenderToken](ctx, c, http.MethodPost,
		c.inOrg("operators", operatorID, "senders", holderID, "restore"), nil, nil)
}

// RekeySender replaces a sender's key without loss: its old leaves live until it
// uses the new one, at most overlap.
func (c *Client) RekeySender(ctx context.Context, operatorID, holderID string, overlap time.Duration) (*operators.SenderToken, error) {
	return call1[operators.SenderToken](ctx, c, http.MethodPost,
		c.inOrg("operators", operatorID, "senders", holderID, "rekey"), nil,
		operators.RekeyRequest{Overlap: duration(overlap)})
}

// CreateToken mints a one-use enrolment token; sender is a holder id, empty for
// the operator's own receiver. A ttl of 0 is the server's default of one hour.
func (c *Client) CreateToken(ctx context.Context, operatorID string, role controlapi.Role, sender string, ttl time.Duration) (*operators.Token, error) {
	return call1[operators.Token](ctx, c, http.MethodPost, c.inOrg("operators", operatorID, "enrollment-tokens"), nil,
		operators.TokenRequest{Role: role, Sender: sender, TTL: duration(ttl)})
}

// Tokens lists the enrolment tokens of an operator, without their secrets.
func (c *Client) Tokens(ctx context.Context, operatorID string) ([]operators.Token, error) {
	return list[operators.Token](ctx, c, c.inOrg("operators", operatorID, "enrollment-tokens"), nil)
}

// RevokeToken ends an enrolment token before it is used.
func (c *Client) RevokeToken(ctx context.Context, operatorID, tokenID string) error {
	return c.call(ctx, http.MethodDelete, c.inOrg("operators", operatorID, "enrollment-tokens", tokenID), nil, nil, nil)
}

// Receipt reads what the operators have confirmed of a revocation by now.
func (c *Client) Receipt(ctx context.Context, id string) (*controlapi.Receipt, error) {
	return call1[controlapi.Receipt](ctx, c, http.MethodGet, c.inOrg("receipts", id), nil, nil)
}

// query holds the pairs whose value is not empty.
func query(pairs ...string) url.Values {
	values := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			values.Set(pairs[i], pairs[i+1])
		}
	}
	return values
}

// duration is the API's form, "" for 0, where the server has its default.
func duration(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}
