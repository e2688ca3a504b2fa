// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package assembly

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/testpki"
	"github.com/ikhnos/continuum/test/testbed"
)

// The limit is below what any process has, so that everything is refused from the
// first look on. The guard is off, because it keeps memory_limiter in front of ours.
const limitedConfig = `
extensions:
  certnameauth:
    operator_id: op-abc
    senders: [{name: op-abc-export-c1, kind: cluster, org_id: default, cluster_id: c1}]
    guard: {mode: off}
receivers:
  otlp:
    protocols:
      grpc: {endpoint: GRPC, middlewares: [{id: certnameauth}], tls: &tls {cert_file: "DIR/tls.crt", key_file: "DIR/tls.key", client_ca_file: "DIR/ca.crt"}}
      http: {endpoint: HTTP, middlewares: [{id: certnameauth}], tls: *tls}
processors:
  continuumidentity/sender: {sender: {mode: stamp}}
  continuumidentity/operator: {operator: {id: op-abc}}
  itemlimit:
  memory_limiter: {check_interval: 100ms, limit_mib: 1}
exporters: {nop: }
service:
  extensions: [certnameauth]
  telemetry: {metrics: {level: none}}
  pipelines: {logs: {receivers: [otlp], processors: [ORDER], exporters: [nop]}}
`

// TestMemoryRefusal is case-39: what memory_limiter refuses, before our processors
// or behind them, is answered so that a sender keeps it: 503 and Unavailable.
func TestMemoryRefusal(t *testing.T) {
	ours := "continuumidentity/sender, itemlimit, continuumidentity/operator"
	for name, order := range map[string]string{"in front": "memory_limiter, " + ours, "behind": ours + ", memory_limiter"} {
		t.Run(name, func(t *testing.T) {
			ca := testpki.NewCA(t, "op-abc")
			dir, overGRPC, overHTTP := testbed.Dir(t), testbed.Address(t), testbed.Address(t)
			ca.Receiver(t).WriteDir(t, dir, ca)
			_, stop := run(t, strings.NewReplacer("DIR", dir, "GRPC", overGRPC, "HTTP", overHTTP, "ORDER", order).Replace(limitedConfig))
			defer stop()
			client := &tls.Config{
				RootCAs: ca.Pool(), ServerName: "localhost", MinVersion: tls.VersionTLS13,
				Certificates: []tls.Certificate{ca.Sender(t, controlapi.KindCluster, "c1").TLS},
			}
			testbed.Eventually(t, "memory_limiter to refuse", func(ctx context.Context) error {
				err := testbed.SendGRPC(ctx, t, overGRPC, client, "x")
				if err == nil {
					return fmt.Errorf("it does not yet")
				}
				require.Equal(t, codes.Unavailable, status.Code(err), err)
				require.ErrorContains(t, err, "memory")
				return nil
			})
			code, err := testbed.SendHTTP(t.Context(), overHTTP, client, "x")
			require.NoError(t, err)
			require.Equal(t, http.StatusServiceUnavailable, code)
		})
	}
}
