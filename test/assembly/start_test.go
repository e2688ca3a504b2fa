// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package assembly

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/internal/identity"
	"github.com/ikhnos/continuum/test/testbed"
)

const receiverConfig = `
extensions:
  certnameauth:
    operator_id: OPERATOR
    policy:
      server: {endpoint: "SERVER", ca_pins: ["PIN"]}
      proof: {cert_file: "DIR/receiver/tls.crt", key_file: "DIR/receiver/tls.key", ca_file: "DIR/receiver/ca.crt"}
  ikhnosrenew:
    server: {endpoint: "SERVER", ca_pins: ["PIN"]}
    certificates:
      receiver: {directory: "DIR/receiver", enrollment: {token_file: "DIR/token"}}
receivers:
  otlp:
    protocols:
      grpc:
        endpoint: LISTEN
        middlewares: [{id: certnameauth}]
        tls: {cert_file: "DIR/receiver/tls.crt", key_file: "DIR/receiver/tls.key", client_ca_file: "DIR/receiver/ca.crt", reload_interval: 5m, client_ca_file_reload: true}
processors: {continuumidentity: {sender: {mode: stamp}}}
exporters: {nop: }
service:
  extensions: [certnameauth, ikhnosrenew]
  telemetry: {metrics: {level: none}}
  pipelines: {logs: {receivers: [otlp], processors: [continuumidentity], exporters: [nop]}}
`

// TestStartOrder is case-43: extensions start in an order that changes from start to
// start. In twenty first starts (with CONTINUUM_SOAK fifty), each with nothing but a
// token, the certificate is there for the receiver and for certnameauth, which proves
// itself with it: nothing fails, nothing is warned of, and the sender gets in.
func TestStartOrder(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server")
	}
	const perOperator = 17 // a holder has at most twenty living certificates
	starts := 20
	if testbed.Soak() {
		starts = 50
	}
	server := testbed.StartServer(t)
	for i := range starts {
		operator := fmt.Sprintf("op-%d", i/perOperator)
		if i%perOperator == 0 {
			server.Central(operator)
			server.Sender(operator, "c1")
		}
		dir, listen := testbed.Dir(t), testbed.Address(t)
		server.TokenFile(filepath.Join(dir, "token"), operator, "")
		logs, stop := run(t, strings.NewReplacer("OPERATOR", operator, "SERVER", server.URL, "PIN", server.Pin,
			"DIR", dir, "LISTEN", listen).Replace(receiverConfig))
		if i%perOperator == 0 {
			leaf := server.Enroll(operator, "c1").ClientTLS(identity.StableName(operator))
			testbed.Eventually(t, "the sender to get in", func(ctx context.Context) error {
				return testbed.SendGRPC(ctx, t, listen, leaf, "x")
			}, server.Process)
		}
		stop()
		for _, entry := range logs.All() {
			require.Failf(t, "a warning", "start %d: %s %v", i, entry.Message, entry.ContextMap())
		}
	}
}
