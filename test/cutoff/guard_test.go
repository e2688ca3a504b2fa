// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cutoff

import (
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/internal/testpki"
	"github.com/ikhnos/continuum/test/testbed"
)

const guarded = `
extensions:
  health_check: {endpoint: "${env:TESTBED_HEALTH}"}
  certnameauth:
    operator_id: op-cut
    senders: [{name: op-cut-export-c1, kind: cluster, org_id: default, cluster_id: c1}]
receivers:
  otlp:
    protocols:
      grpc:
        endpoint: ${env:GRPC}
        middlewares: [{id: certnameauth}]
        tls: {cert_file: "${env:STATE}/tls.crt", key_file: "${env:STATE}/tls.key", client_ca_file: "${env:STATE}/ca.crt"}
processors: {continuumidentity: {sender: {mode: stamp}}}
exporters: {nop: }
service:
  extensions: [health_check, certnameauth]
  telemetry: {metrics: {level: none}}
  pipelines: {logs: {receivers: [otlp], processors: [continuumidentity], exporters: [nop]}}
`

// TestSecondConfig: the lists of a second --config replace those of the first. What
// opens a way around certnameauth by that is refused with the same text under
// validate, at start and at a reload (case-46, trap-12).
func TestSecondConfig(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	const nothing = "# nothing\n"
	c := testbed.NewCollector(t, testbed.CollectorSpec{
		Name: "guarded", Config: []string{guarded, nothing}, Env: []string{"GRPC=" + testbed.Address(t)},
	})
	ca := testpki.NewCA(t, operatorID)
	ca.Receiver(t).WriteDir(t, c.Dir, ca)
	for second, text := range map[string]string{
		"service: {extensions: [health_check]}":                           "certnameauth is defined and does not run",
		"receivers: {otlp: {protocols: {grpc: {middlewares: []}}}}":       "protocol grpc has no certnameauth",
		"receivers: {otlp: {protocols: {http: {endpoint: 127.0.0.1:0}}}}": "protocol http has no certnameauth",
	} {
		t.Run(text, func(t *testing.T) {
			c.SetConfig(guarded, second)
			validate := exec.CommandContext(t.Context(), testbed.Program(t, "continuum-collector"), "validate",
				"--config", filepath.Join(c.Dir, "guarded-0.yaml"), "--config", filepath.Join(c.Dir, "guarded-1.yaml"))
			validate.Env = append(validate.Environ(), "STATE="+c.Dir, "GRPC=127.0.0.1:0", "TESTBED_HEALTH=127.0.0.1:0")
			said, err := validate.CombinedOutput()
			require.Error(t, err)
			require.Contains(t, string(said), text)

			c.Launch()
			<-c.Done()
			require.Error(t, c.Err())
			require.Contains(t, c.Tail(20), text)

			c.SetConfig(guarded, nothing)
			c.Start()
			c.SetConfig(guarded, second)
			require.NoError(t, c.Signal(syscall.SIGHUP))
			<-c.Done()
			require.Error(t, c.Err())
			log, err := c.Output()
			require.NoError(t, err)
			assert.Equal(t, 1, strings.Count(log, text), "once")
		})
	}
}
