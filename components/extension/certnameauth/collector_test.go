// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certnameauth

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/otelcol"
	"google.golang.org/grpc/codes"

	"github.com/ikhnos/continuum/internal/testpki"
)

const plainConfig = `
extensions:
  certnameauth:
    operator_id: op-abc
    senders:
      - {name: op-abc-export-c1, kind: cluster, org_id: default, cluster_id: c1}
      - {name: op-abc-export-c2, kind: cluster, org_id: default, cluster_id: c2}
    crl: {file: %[1]s/crl.der, ca_file: %[1]s/ca.crt}
    guard: {mode: off}
receivers:
  otlp:
    protocols:
      grpc: {endpoint: %[2]q, middlewares: [{id: certnameauth}], tls: &tls {cert_file: %[1]s/tls.crt, key_file: %[1]s/tls.key, client_ca_file: %[1]s/ca.crt}}
      http: {endpoint: %[3]q, middlewares: [{id: certnameauth}], tls: *tls}
exporters:
  nop:
service:
  telemetry: {metrics: {level: none}}
  extensions: [certnameauth]
  pipelines:
    traces: {receivers: [otlp], exporters: [nop]}
`

// A whole collector with nothing of ours but this extension, a list and a
// revocation list.
func TestPlainCollector(t *testing.T) {
	ca := testpki.NewCA(t, operatorID)
	dir := t.TempDir()
	ca.Receiver(t).WriteDir(t, dir, ca)
	revoked := sender(t, ca, "c2")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "crl.der"), crlDER(t, ca, 1, time.Now().Add(time.Hour), revoked), 0o600))
	r := &rig{t: t, ca: ca, grpcAddr: freeAddr(t), httpAddr: freeAddr(t)}
	file := filepath.Join(dir, "config.yaml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, plainConfig, dir, r.grpcAddr, r.httpAddr), 0o600))

	ctx, cancel := context.WithCancel(context.Background())
	col := collector(t, withGuard, file)
	done := make(chan error, 1)
	go func() { done <- col.Run(ctx) }()
	require.Eventually(t, func() bool { return col.GetState() == otelcol.StateRunning }, waitLong, tick)
	for _, w := range r.wires(sender(t, ca, "c1")) {
		requireAccepted(t, w.send())
	}
	for _, w := range r.wires(revoked) {
		requireRefused(t, w.send(), "certificate_revoked", codes.PermissionDenied)
	}
	for _, w := range r.wires(sender(t, ca, "c3")) {
		requireRefused(t, w.send(), "sender_unknown", codes.PermissionDenied)
	}
	cancel()
	require.NoError(t, <-done)
}
