// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package controlclient

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
	"time"

	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/holderproof"
	"github.com/ikhnos/continuum/internal/version"
)

// Limits of what is read of an answer.
const (
	maxAnswerBytes = controlapi.MaxBodyBytes
	maxPolicyBytes = 128 << 20 // a million revoked serials are about 60 MiB
)

// call is one call, however many attempts it takes.
type call struct {
	method, route string
	query         url.Values
	body          []byte
	header        http.Header
	holder        *Holder       // nil: no proof
	wait          time.Duration // of a long poll
	limit         int64         // bytes of a good answer
}

// answer is what came back with a status below 400.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// do makes a call. After clock_skew it corrects the time of its proofs by the
// server's and tries once more. It does so after proof_replayed as well: there
// net/http itself repeated a request whose connection broke, proof included.
func (c *Client) do(ctx context.Context, k call) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout+k.wait)
	defer cancel()
	got, err := c.attempt(ctx, k)
	var problem *controlapi.Problem
	if k.holder == nil || !errors.As(err, &problem) {
		return got, err
	}
	switch {
	case problem.Reason == controlapi.ReasonClockSkew && problem.ServerTime != nil:
		c.correction.Store(int64(problem.ServerTime.Sub(c.now())))
		c.offset.Store(c.correction.Load())
	case problem.Reason == controlapi.ReasonProofReplayed:
	default:
		return nil, err
	}
	return c.attempt(ctx, k)
}

func (c *Client) attempt(ctx context.Context, k call) (*answer, error) {
	request, err := c.request(ctx, k)
	if err != nil {
		return nil, err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("calling the control server: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	c.observe(response.Header)
	if response.StatusCode >= http.StatusBadRequest {
		return nil, problemOf(response)
	}
	if response.StatusCode >= http.StatusMultipleChoices && response.StatusCode != http.StatusNotModified {
		return nil, fmt.Errorf("the control server redirects (%s), which is not followed: correct the endpoint", response.Status)
	}
	body, err := readLimited(response.Body, k.limit)
	if err != nil {
		return nil, fmt.Errorf("reading the control server's answer: %w", err)
	}
	return &answer{status: response.StatusCode, header: response.Header, body: body}, nil
}

// request builds one attempt, with a proof of its own.
func (c *Client) request(ctx context.Context, k call) (*http.Request, error) {
	target := c.base.JoinPath(k.route)
	target.RawQuery = k.query.Encode()
	var body io.Reader
	if k.body != nil {
		body = bytes.NewReader(k.body)
	}
	request, err := http.NewRequestWithContext(ctx, k.method, target.String(), body)
	if err != nil {
		return nil, fmt.Errorf("building the request: %w", err)
	}
	for name, values := range k.header {
		request.Header[name] = values
	}
	request.Header.Set("User-Agent", "continuum/"+version.Version)
	if k.body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if k.holder != nil {
		at := c.now().Add(time.Duration(c.correction.Load()))
		proof, err := holderproof.Sign(k.holder.Key, k.holder.Leaf,
			holderproof.Request{Method: k.method, Route: k.route, Body: k.body}, at)
		if err != nil {
			return nil, err
		}
		request.Header.Set("Authorization", holderproof.Scheme+" "+proof)
	}
	return request, nil
}

// observe notes the difference of the clocks that the Date header shows. It has
// whole seconds, so less than two are taken for none.
func (c *Client) observe(header http.Header) {
	date, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		return
	}
	offset := date.Sub(c.now()).Truncate(time.Second)
	if offset.Abs() < 2*time.Second {
		offset = 0
	}
	c.offset.Store(int64(offset))
}

// problemOf reads the problem of an error answer, or says that there was none.
func problemOf(response *http.Response) error {
	mediaType, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	body, err := readLimited(response.Body, maxAnswerBytes)
	problem := &controlapi.Problem{}
	if err != nil || mediaType != controlapi.ProblemContentType || json.Unmarshal(body, problem) != nil || problem.Reason == "" {
		return &UnexplainedError{response.StatusCode}
	}
	problem.Status = response.StatusCode
	return problem
}

// UnexplainedError is an error answer without a problem in it, as a server of
// another make gives it, or a proxy in the server's place.
type UnexplainedError struct{ Status int }

// Error names the status.
func (e *UnexplainedError) Error() string {
	return fmt.Sprintf("the control server answered %d %s without saying why: something between may have answered in its place",
		e.Status, http.StatusText(e.Status))
}

// Refused reports whether err is an answer that refuses the call: a problem, or
// a status from 400 to 499.
func Refused(err error) bool {
	var problem *controlapi.Problem
	var unexplained *UnexplainedError
	return errors.As(err, &problem) || errors.As(err, &unexplained) && unexplained.Status < http.StatusInternalServerError
}

var errAnswerSize = errors.New("the answer is too large")

func readLimited(r io.Reader, limit int64) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(body)) > limit {
		return nil, errAnswerSize
	}
	return body, nil
}
