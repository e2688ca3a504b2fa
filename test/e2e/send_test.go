// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"net/http"

	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// sendGRPC sends one log record on a connection of its own.
func sendGRPC(ctx context.Context, address string, config *tls.Config, body string) error {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_, err = plogotlp.NewGRPCClient(conn).Export(ctx, logRequest(body))
	return err
}

// sendHTTP posts one log record on a connection of its own and returns the status
// code; an error means that there was no answer.
func sendHTTP(ctx context.Context, url string, config *tls.Config, body string) (int, error) {
	payload, err := logRequest(body).MarshalProto()
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(payload))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}
