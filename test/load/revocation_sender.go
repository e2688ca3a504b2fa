// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package load

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/ikhnos/continuum/internal/controlapi"
)

const (
	warmRequests  = 20 // accepted before the revoke
	afterRefusals = 5  // requests that go on after the first refusal
)

// sender is a cluster with one connection that it keeps.
type sender struct {
	// send sends one request. The refusal is what the receiver's Status says, empty
	// for an accepted request.
	send  func(ctx context.Context) (refusal string, err error)
	close func()
}

func newSender(s *site, config *tls.Config) (*sender, error) {
	td := ptrace.NewTraces()
	td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty().SetName("bench")
	request := ptraceotlp.NewExportRequestFromTraces(td)
	if s.protocol == overGRPC {
		conn, err := grpc.NewClient(s.address, grpc.WithTransportCredentials(credentials.NewTLS(config)))
		if err != nil {
			return nil, err
		}
		client := ptraceotlp.NewGRPCClient(conn)
		return &sender{func(ctx context.Context) (string, error) {
			_, err := client.Export(ctx, request)
			return status.Convert(err).Message(), ctx.Err()
		}, func() { _ = conn.Close() }}, nil
	}
	body, err := request.MarshalProto()
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{TLSClientConfig: config}
	client := &http.Client{Transport: transport}
	return &sender{func(ctx context.Context) (string, error) {
		return post(ctx, client, "https://"+s.address+"/v1/traces", body)
	}, transport.CloseIdleConnections}, nil
}

func post(ctx context.Context, client *http.Client, url string, body []byte) (refusal string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/x-protobuf")
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode == http.StatusOK {
		return "", err
	}
	var said spb.Status
	if err := proto.Unmarshal(text, &said); err != nil || said.GetMessage() == "" {
		return "", fmt.Errorf("the receiver answered %s without a Status", response.Status)
	}
	return said.GetMessage(), nil
}

// push is one sender's requests, one after the other without a pause, until it is
// cut off.
type push struct {
	site *site
	warm chan struct{} // closed after warmRequests

	accepted, refused  int64
	sent, firstRefused time.Time // around the first refusal: before it was sent, after it was answered
}

// run sends until afterRefusals requests were refused and returns an error for
// anything but acceptance, then refusal by revocation.
func (p *push) run(ctx context.Context) error {
	for p.refused < afterRefusals {
		sent := time.Now()
		refusal, err := p.site.sender.send(ctx)
		switch {
		case err != nil:
			return err
		case refusal == "" && p.refused > 0:
			return errors.New("a request was accepted after one was refused")
		case refusal == "":
			if p.accepted++; p.accepted == warmRequests {
				close(p.warm)
			}
			continue
		case !strings.HasPrefix(refusal, "certificate_revoked "):
			return fmt.Errorf("a request was refused: %s", refusal)
		}
		if p.refused++; p.refused == 1 {
			p.sent, p.firstRefused = sent, time.Now()
		}
	}
	return nil
}

// errDisagree says that server, operator and sender tell different stories.
var errDisagree = errors.New("the receipt does not agree with the operator's counters")

// compare waits until the receipt tells of the first refusal, and checks every
// time and count of it.
func (f *fleet) compare(ctx context.Context, s *site, p *push, receiptID string) error {
	var in controlapi.ReceiptInstance
	if err := await(ctx, f.Process, func(ctx context.Context) error {
		receipt, err := f.api.Receipt(ctx, receiptID)
		if err != nil {
			return err
		}
		if len(receipt.Instances) != 1 || receipt.Instances[0].FirstRefusedAtMs == 0 {
			return fmt.Errorf("no refusal is reported: %+v", receipt.Instances)
		}
		in = receipt.Instances[0]
		return nil
	}); err != nil {
		return err
	}
	// certnameauth notes the time just before a request comes through.
	within := func(ms int64, from, to time.Time) bool { return from.UnixMilli() <= ms && ms <= to.UnixMilli() }
	if in.State != controlapi.ReceiptConfirmed || in.Operator != s.id ||
		!within(in.LastAcceptedAtMs, s.before, s.last) || !within(in.FirstRefusedAtMs, p.sent, p.firstRefused) {
		return fmt.Errorf("%w: receipt %+v; accepted %s and %s, refused between %s and %s", errDisagree, in,
			s.before.Format(time.StampMilli), s.last.Format(time.StampMilli), p.sent.Format(time.StampMilli), p.firstRefused.Format(time.StampMilli))
	}
	counted, err := s.outcomes()
	if err != nil {
		return err
	}
	// The first request was accepted before pushing began.
	if counted["accepted"] != s.accepted || s.accepted != p.accepted+1 || counted["certificate_revoked"] != p.refused {
		return fmt.Errorf("%w: counted %v, came through %d, sent %d and %d refused", errDisagree, counted, s.accepted, p.accepted, p.refused)
	}
	return nil
}

// outcomes are the extension's own counts of requests.
func (s *site) outcomes() (map[string]int64, error) {
	metric, err := s.telemetry.GetMetric("otelcol_extension_certnameauth_requests")
	if err != nil {
		return nil, err
	}
	counts := map[string]int64{}
	for _, point := range metric.Data.(metricdata.Sum[int64]).DataPoints {
		outcome, _ := point.Attributes.Value("outcome")
		counts[outcome.AsString()] += point.Value
	}
	return counts, nil
}
