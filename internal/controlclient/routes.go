// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package controlclient

import (
	"context"
	"crypto"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/ikhnos/continuum/internal/controlapi"
)

// Holder is the key and the leaf (DER) by which a call is proven.
type Holder struct {
	Key  crypto.Signer
	Leaf []byte
}

// Enroll spends a token for a certificate. A repeat with the same key gets the
// same certificate.
func (c *Client) Enroll(ctx context.Context, token string, csrPEM []byte) (*controlapi.Certificate, error) {
	return c.certificate(ctx, controlapi.RouteEnroll, nil, controlapi.EnrollRequest{Token: token, CSR: string(csrPEM)})
}

// Renew asks for the successor of the holder's leaf, for the new key of the
// request. A repeat with the same key gets the same certificate.
func (c *Client) Renew(ctx context.Context, h Holder, csrPEM []byte) (*controlapi.Certificate, error) {
	return c.certificate(ctx, controlapi.RouteRenew, &h, controlapi.RenewRequest{CSR: string(csrPEM)})
}

func (c *Client) certificate(ctx context.Context, route string, h *Holder, body any) (*controlapi.Certificate, error) {
	got, err := c.post(ctx, route, h, nil, body)
	if err != nil {
		return nil, err
	}
	certificate := &controlapi.Certificate{}
	if err := json.Unmarshal(got.body, certificate); err != nil {
		return nil, fmt.Errorf("reading the certificate in the answer: %w", err)
	}
	return certificate, nil
}

// PolicyAnswer is a signed policy and its version, or that there is none newer.
type PolicyAnswer struct {
	JWS, ETag   string
	NotModified bool
}

// Policy fetches the holder's sender policy. With an etag it waits, for at most
// wait in whole seconds, until there is another one; a receiver's leaf is needed.
func (c *Client) Policy(ctx context.Context, h Holder, etag string, wait time.Duration) (PolicyAnswer, error) {
	k := call{method: http.MethodGet, route: controlapi.RoutePolicy, holder: &h, wait: wait, limit: maxPolicyBytes, header: http.Header{}}
	if etag != "" {
		k.header.Set("If-None-Match", etag)
	}
	if seconds := int(wait / time.Second); seconds > 0 {
		k.query = url.Values{"wait": {strconv.Itoa(seconds)}}
	}
	got, err := c.do(ctx, k)
	if err != nil {
		return PolicyAnswer{}, err
	}
	if got.status == http.StatusNotModified {
		return PolicyAnswer{ETag: etag, NotModified: true}, nil
	}
	return PolicyAnswer{JWS: strings.TrimSpace(string(got.body)), ETag: got.header.Get("ETag")}, nil
}

// Report tells the server what an operator instance enforces and sees; a
// receiver's leaf is needed.
func (c *Client) Report(ctx context.Context, h Holder, r *controlapi.Report) error {
	_, err := c.post(ctx, controlapi.RoutePolicyReport, &h, nil, r)
	return err
}

// Heartbeat sends one beat, authenticated by the operator's heartbeat secret.
func (c *Client) Heartbeat(ctx context.Context, secret string, hb *controlapi.Heartbeat) error {
	_, err := c.post(ctx, controlapi.RouteHeartbeat, nil, http.Header{"Authorization": {"Bearer " + strings.TrimSpace(secret)}}, hb)
	return err
}

func (c *Client) post(ctx context.Context, route string, h *Holder, header http.Header, body any) (*answer, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encoding the request: %w", err)
	}
	return c.do(ctx, call{method: http.MethodPost, route: route, holder: h, header: header, body: text, limit: maxAnswerBytes})
}
