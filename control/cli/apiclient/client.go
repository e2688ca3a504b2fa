// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package apiclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/controlclient"
	"github.com/ikhnos/continuum/internal/version"
)

// DefaultOrg is the organisation that the first start of a server makes.
const DefaultOrg = "default"

// maxAnswerBytes bounds one answer: a page of 500 rows is far below it.
const maxAnswerBytes = 32 << 20

// Config says where the server is and who asks.
type Config struct {
	Server  string        // https://HOST[:PORT][/PREFIX]
	Token   string        // ikadm_…; sent to Server alone
	CAPins  []string      // sha256:HEX; empty: the system's roots
	Org     string        // DefaultOrg when empty
	Timeout time.Duration // of one call; 0: the context alone decides
}

// Client calls one server for one organisation. It is safe for concurrent use.
type Client struct {
	http    *http.Client
	base    *url.URL
	pins    []string
	token   string
	org     string
	timeout time.Duration
}

// CallError is the error of one call: what the server refused, or an
// UnreachableError.
type CallError struct {
	Method, Path string
	Err          error
}

func (e *CallError) Error() string { return e.Method + " " + e.Path + ": " + e.Err.Error() }
func (e *CallError) Unwrap() error { return e.Err }

// UnreachableError says that no control server answered: no connection, no
// trusted certificate, or an answer of something else in between.
type UnreachableError struct{ Err error }

func (e *UnreachableError) Error() string { return "reaching the control server: " + e.Err.Error() }
func (e *UnreachableError) Unwrap() error { return e.Err }

// New checks cfg and prepares a client; it sends nothing yet.
func New(cfg Config) (*Client, error) {
	base, err := url.Parse(strings.TrimRight(cfg.Server, "/"))
	if err != nil || base.Scheme != "https" || base.Host == "" || base.User != nil || base.RawQuery != "" || base.Fragment != "" {
		return nil, errors.New("the server's address must be https://HOST[:PORT]")
	}
	token := ""
	if cfg.Token != "" {
		if token, _, err = controlapi.ParseSecret(controlapi.SecretAdmin, cfg.Token); err != nil {
			return nil, fmt.Errorf("reading the admin token: %w", err)
		}
	}
	transport, err := controlclient.PinnedTransport(cfg.CAPins, nil)
	if err != nil {
		return nil, fmt.Errorf("preparing the CA pins: %w", err)
	}
	org := cfg.Org
	if org == "" {
		org = DefaultOrg
	}
	return &Client{
		http:    &http.Client{Transport: transport, CheckRedirect: refuseRedirect},
		base:    base,
		pins:    cfg.CAPins,
		token:   token,
		org:     org,
		timeout: cfg.Timeout,
	}, nil
}

// refuseRedirect returns the redirect itself as the answer: the token must not
// travel to another place.
func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Org is the organisation that the client asks for.
func (c *Client) Org() string { return c.org }

// Server is the address of the control server, without a slash at its end.
func (c *Client) Server() string { return c.base.String() }

// CAPins are the pins by which the server is trusted, none for the system's roots.
func (c *Client) CAPins() []string { return slices.Clone(c.pins) }

// Within is the same client with at least this long for each call.
func (c *Client) Within(timeout time.Duration) *Client {
	longer := *c
	longer.timeout = max(c.timeout, timeout)
	return &longer
}

// CloseIdleConnections ends the connections that no call uses.
func (c *Client) CloseIdleConnections() { c.http.CloseIdleConnections() }

// call sends one request, in as JSON unless it is nil, and reads the answer into
// out, unless that is nil or the answer has no body.
func (c *Client) call(ctx context.Context, method, path string, query url.Values, in, out any) error {
	body, err := c.roundTrip(ctx, method, path, query, in)
	if err != nil {
		return &CallError{method, path, err}
	}
	if out == nil || len(body) == 0 {
		return nil
	}
	if err := json.Unmarshal(body, out); err != nil {
		return &CallError{method, path, &UnreachableError{fmt.Errorf("reading the answer: %w", err)}}
	}
	return nil
}

func (c *Client) roundTrip(ctx context.Context, method, path string, query url.Values, in any) ([]byte, error) {
	if c.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
	req, err := c.newRequest(ctx, method, path, query, in)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes+1))
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if len(body) > maxAnswerBytes {
		return nil, &UnreachableError{fmt.Errorf("the answer is larger than %d MiB", maxAnswerBytes>>20)}
	}
	return body, checkStatus(resp, body)
}

func (c *Client) newRequest(ctx context.Context, method, path string, query url.Values, in any) (*http.Request, error) {
	var content io.Reader
	if in != nil {
		encoded, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("encoding the request: %w", err)
		}
		content = bytes.NewReader(encoded)
	}
	target := c.base.String() + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, target, content)
	if err != nil {
		return nil, fmt.Errorf("building the request: %w", err)
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	req.Header.Set("Accept", "application/json, "+controlapi.ProblemContentType)
	req.Header.Set("User-Agent", "ikhnos/"+version.Version)
	return req, nil
}

// unreachable keeps a cancellation by the caller apart from a server that is
// away: the former is nobody's fault.
func (c *Client) unreachable(ctx context.Context, err error) error {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, context.Canceled):
		return context.Canceled
	case errors.Is(cause, context.DeadlineExceeded):
		return &UnreachableError{fmt.Errorf("nothing came back within %s: %w", c.timeout, cause)}
	}
	var wrapped *url.Error // repeats method and address
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return &UnreachableError{err}
}

// checkStatus returns the server's problem for any answer that is not a success.
func checkStatus(resp *http.Response, body []byte) error {
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return nil
	}
	var problem controlapi.Problem
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if media == controlapi.ProblemContentType && json.Unmarshal(body, &problem) == nil && problem.Reason != "" {
		return &problem
	}
	return &UnreachableError{fmt.Errorf("status %d without a reason: not an answer of a control server", resp.StatusCode)}
}

// listLimit is the page size that asks for as few pages as the API allows.
const listLimit = "500"

// page is one answer to a list call.
type page[T any] struct {
	Items      []T    `json:"items"`
	NextCursor string `json:"nextCursor"`
}

// list reads every page. The result is never nil.
func list[T any](ctx context.Context, c *Client, path string, filter url.Values) ([]T, error) {
	query := url.Values{"limit": {listLimit}}
	for name, values := range filter {
		query[name] = values
	}
	all := []T{}
	for {
		var got page[T]
		if err := c.call(ctx, http.MethodGet, path, query, nil, &got); err != nil {
			return nil, err
		}
		all = append(all, got.Items...)
		if got.NextCursor == "" {
			return all, nil
		}
		if got.NextCursor == query.Get("cursor") {
			return nil, &UnreachableError{errors.New("the list does not end: the server repeats its cursor")}
		}
		query.Set("cursor", got.NextCursor)
	}
}

// call1 is call for an answer of type T.
func call1[T any](ctx context.Context, c *Client, method, path string, query url.Values, in any) (*T, error) {
	out := new(T)
	if err := c.call(ctx, method, path, query, in, out); err != nil {
		return nil, err
	}
	return out, nil
}

// inOrg is a path under the client's organisation, each element escaped.
func (c *Client) inOrg(elements ...string) string {
	path := "/api/v1/orgs/" + url.PathEscape(c.org)
	for _, element := range elements {
		path += "/" + url.PathEscape(element)
	}
	return path
}
