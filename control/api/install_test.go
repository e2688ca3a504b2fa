// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/audit/trail"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// TestInstall: IN-3 to IN-13, trap-17: no secret in an argument, and a quote in a
// name does not break out.
func TestInstall(t *testing.T) {
	h := newHarness(t, func(c *Config) { c.PublicURL, c.CAPin = "https://ikhnos.example.com/", "sha256:00" })
	admin1[operators.Operator](h, http.MethodPut, "/operators/op-central", operators.OperatorRequest{Name: "Central", Role: operators.RoleCentral})
	admin1[operators.Operator](h, http.MethodPut, "/operators/op-eu", operators.OperatorRequest{
		Name: `EU'; touch "$HOME"`, Heartbeat: operators.SwitchOn, Exposure: operators.ExposureNodePort,
		Destination: &operators.Destination{Kind: operators.DestinationOperator, OperatorID: "op-central"},
	})
	out := admin1[Install](h, http.MethodPost, "/operators/op-eu/install", nil)
	require.Len(t, out.Blocks, 4)
	for _, b := range out.Blocks {
		assert.NotEmpty(t, b.Where)
		words, _, _ := strings.Cut(b.Text, "<<'END'")
		for _, kind := range []controlapi.SecretKind{controlapi.SecretEnrollment, controlapi.SecretHeartbeat} {
			assert.NotContains(t, words, string(kind))
		}
	}
	helm := out.Blocks[3].Text
	for _, want := range []string{`"requireAuth":true`, `"type":"NodePort"`, `"caPin":"sha256:00"`, `"server":"https://ikhnos.example.com"`, `"serverName":"op-central.continuum-system.svc"`, "/api/v1/operator-heartbeat"} {
		assert.Contains(t, helm, want)
	}
	shell := exec.CommandContext(t.Context(), "sh", "-c", `helm() { for a; do printf '%s\n' "$a"; done; }; `+helm)
	printed, err := shell.CombinedOutput()
	require.NoError(t, err, "%s", printed)
	assert.Contains(t, string(printed), `operator={"id":"op-eu","labels":{},"name":"EU'; touch \"$HOME\""}`)

	_, token, _ := strings.Cut(out.Blocks[0].Text, "END'")
	token = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(token[strings.Index(token, "iktok_"):]), "END"))
	assert.Equal(t, http.StatusOK, h.enroll(token, newKey(t)).StatusCode)
	assert.Len(t, admin1[operators.List[trail.Record]](h, http.MethodGet, "/audit?event=operator-install-reissued", nil).Items, 1)
	refused(t, h.send(h.request(http.MethodPost, "/api/v1/orgs/default/operators/op-eu/install", h.token, `{"format":"punch cards"}`)), controlapi.ReasonValidationFailed)
}
