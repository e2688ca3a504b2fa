// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package apiclient

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// CertificateFilter chooses entries of the ledger; empty fields do not restrict.
type CertificateFilter struct {
	Operator, Holder, State string
	Role                    controlapi.Role
	EndsBefore              time.Time
	Newest                  bool // only the newest of each operator, holder and role
}

// Certificates lists entries of the ledger: of one operator, or of all.
func (c *Client) Certificates(ctx context.Context, f CertificateFilter) ([]ledger.Entry, error) {
	path := c.inOrg("certificates")
	if f.Operator != "" {
		path = c.inOrg("operators", f.Operator, "certificates")
	}
	filter := query("holder", f.Holder, "state", f.State, "role", string(f.Role))
	if !f.EndsBefore.IsZero() {
		filter.Set("endsBefore", controlapi.Seconds(f.EndsBefore).Format(time.RFC3339))
	}
	if f.Newest {
		filter.Set("newest", "true")
	}
	return list[ledger.Entry](ctx, c, path, filter)
}

// RevokeCertificate revokes one leaf and what was renewed from it.
func (c *Client) RevokeCertificate(ctx context.Context, operatorID, serial, note string, wait time.Duration) (*controlapi.Receipt, error) {
	return call1[controlapi.Receipt](ctx, c.patient(wait), http.MethodPost,
		c.inOrg("operators", operatorID, "certificates", serial, "revoke"), waitQuery(wait), operators.NoteRequest{Note: note})
}

// AdoptCertificates admits the leaves issued at issuedAfter or later that a
// restored ledger lacks, or with AdoptDryRun tells what would be admitted.
func (c *Client) AdoptCertificates(ctx context.Context, issuedAfter time.Time, mode operators.AdoptMode) (*operators.Adoptions, error) {
	return call1[operators.Adoptions](ctx, c, http.MethodPost, c.inOrg("certificates", "adopt"), nil,
		operators.AdoptRequest{IssuedAfter: controlapi.Seconds(issuedAfter), Mode: mode})
}

// LedgerHead is the end of an operator's hash chain.
func (c *Client) LedgerHead(ctx context.Context, operatorID string) (*ledger.Head, error) {
	return call1[ledger.Head](ctx, c, http.MethodGet, c.inOrg("operators", operatorID, "ledger", "head"), nil, nil)
}

// LedgerLines reads event lines of an operator's chain that follow sequence:
// {"event": {…}, "hash": "…"}, one a line, none at the end of the chain.
func (c *Client) LedgerLines(ctx context.Context, operatorID string, sequence int64) ([]byte, error) {
	return c.roundTrip(ctx, http.MethodGet, c.inOrg("operators", operatorID, "ledger"),
		url.Values{"after": {strconv.FormatInt(sequence, 10)}}, nil)
}
