// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// Logs is an OTLP request with one log record for each id, which is its body.
func Logs(ids ...string) plogotlp.ExportRequest {
	logs := plog.NewLogs()
	resource := logs.ResourceLogs().AppendEmpty()
	resource.Resource().Attributes().PutStr("service.name", "application")
	records := resource.ScopeLogs().AppendEmpty().LogRecords()
	for _, id := range ids {
		records.AppendEmpty().Body().SetStr(id)
	}
	return plogotlp.NewExportRequestFromLogs(logs)
}

// DialOTLP returns a connection to an OTLP/gRPC receiver; config nil is in clear.
// It ends with the test.
func DialOTLP(t testing.TB, address string, config *tls.Config) *grpc.ClientConn {
	t.Helper()
	creds := insecure.NewCredentials()
	if config != nil {
		creds = credentials.NewTLS(config)
	}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(creds))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// SendGRPC sends log records on a connection of its own; config nil is in clear.
func SendGRPC(ctx context.Context, t testing.TB, address string, config *tls.Config, ids ...string) error {
	t.Helper()
	conn := DialOTLP(t, address, config)
	defer func() { _ = conn.Close() }()
	_, err := plogotlp.NewGRPCClient(conn).Export(ctx, Logs(ids...))
	return err
}

// SendHTTP posts log records to https://address, or in clear with a nil config, on a
// connection of its own, and returns the status code. An error means that there was
// no answer.
func SendHTTP(ctx context.Context, address string, config *tls.Config, ids ...string) (int, error) {
	scheme := "https://"
	if config == nil {
		scheme = "http://"
	}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	return PostLogs(ctx, &http.Client{Transport: transport}, scheme+address, ids...)
}

// PostLogs posts log records to base/v1/logs by a client and returns the status code.
func PostLogs(ctx context.Context, client *http.Client, base string, ids ...string) (int, error) {
	payload, err := Logs(ids...).MarshalProto()
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/logs", bytes.NewReader(payload))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, resp.Body) // or the connection is not used again
	return resp.StatusCode, errors.Join(err, resp.Body.Close())
}

// Load sends numbered log records to a collector in clear, over one connection, a
// batch each tick, until Stop.
type Load struct {
	t       testing.TB
	name    string
	batch   int
	stop    context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex
	sent   []string
	failed error
}

// StartLoad begins: ids are NAME-0, NAME-1 and so on. It ends with the test at the
// latest.
func StartLoad(t testing.TB, address, name string, batch int, tick time.Duration) *Load {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	l := &Load{t: t, name: name, batch: batch, stop: stop}
	client := plogotlp.NewGRPCClient(DialOTLP(t, address, nil))
	l.running.Go(func() {
		ticker := time.NewTicker(tick)
		defer ticker.Stop()
		for l.send(ctx, client) {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
		}
	})
	t.Cleanup(func() {
		stop()
		l.running.Wait()
	})
	return l
}

// send sends the next batch and reports whether to go on. A batch under way when
// the load is stopped is sent to its end.
func (l *Load) send(ctx context.Context, client plogotlp.GRPCClient) bool {
	ids := make([]string, l.batch)
	for i := range ids {
		ids[i] = fmt.Sprintf("%s-%d", l.name, l.Sent()+i)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	_, err := client.Export(ctx, Logs(ids...))
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.failed = err
		return false
	}
	l.sent = append(l.sent, ids...)
	return true
}

// Sent is how many records were accepted so far.
func (l *Load) Sent() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.sent)
}

// Stop ends the load and returns the ids of all records that were accepted. It
// fails the test when the collector refused one.
func (l *Load) Stop() []string {
	l.t.Helper()
	l.stop()
	l.running.Wait()
	require.NoError(l.t, l.failed, "sending %s", l.name)
	return l.sent
}
