// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/audit/trail"
	"github.com/ikhnos/continuum/control/install"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
)

func newInstallHarness(t *testing.T) *harness {
	t.Helper()
	h := newHarness(t, func(c *Config) { c.PublicURL, c.CAPin = "https://ikhnos.example.com/", "sha256:00" })
	admin1[operators.Operator](h, http.MethodPut, "/operators/op-central", operators.OperatorRequest{Name: "Central", Role: operators.RoleCentral})
	admin1[operators.Operator](h, http.MethodPut, "/operators/op-eu", operators.OperatorRequest{
		Name: `EU'; touch "$HOME"`, Heartbeat: operators.SwitchOn, Exposure: operators.ExposureNodePort,
		Destination: &operators.Destination{Kind: operators.DestinationOperator, OperatorID: "op-central"},
	})
	return h
}

// file returns the one block of that name.
func (i *Install) file(t *testing.T, name string) install.Block {
	t.Helper()
	for _, b := range i.Blocks {
		if b.File == name {
			return b
		}
	}
	require.Fail(t, "there is no block "+name)
	return install.Block{}
}

var printedToken = regexp.MustCompile(`(?m)^iktok_\S+$`)

// TestInstall: IN-1, IN-3 to IN-14, AD-19, A-6: a quote in a name does not break out, the
// token works, and what was done is in the audit.
func TestInstall(t *testing.T) {
	h := newInstallHarness(t)
	out := admin1[Install](h, http.MethodPost, "/operators/op-eu/install", nil)
	assert.Equal(t, install.Shell, out.Format)
	helm := out.file(t, "install.sh").Text
	for _, want := range []string{`"requireAuth":true`, `"type":"NodePort"`, `"caPin":"sha256:00"`, `"server":"https://ikhnos.example.com"`,
		`"endpoint":"op-central.continuum-system.svc:4317"`, `"serverName":"op-central.continuum-system.svc"`, "/api/v1/operator-heartbeat"} {
		assert.Contains(t, helm, want)
	}
	shell := exec.CommandContext(t.Context(), "sh", "-c", `helm() { for a; do printf '%s\n' "$a"; done; }; `+helm)
	printed, err := shell.CombinedOutput()
	require.NoError(t, err, "%s", printed)
	assert.Contains(t, string(printed), `operator={"id":"op-eu","labels":{},"name":"EU'; touch \"$HOME\""}`)
	require.Len(t, out.Warnings, 1)
	assert.Contains(t, out.Warnings[0], "ikhnos operator address op-central HOST:PORT")

	fromOld := printedToken.FindString(out.file(t, "receiver-token.sh").Text)
	out = admin1[Install](h, http.MethodPost, "/operators/op-eu/install", nil)
	refused(t, h.enroll(fromOld, newKey(t)), controlapi.ReasonTokenRevoked) // IN-12
	assert.Contains(t, strings.Join(out.Warnings, "\n"), "The heartbeat secret that op-eu had is dead")
	token := printedToken.FindString(out.file(t, "receiver-token.sh").Text)
	assert.Equal(t, http.StatusOK, h.enroll(token, newKey(t)).StatusCode)
	assert.Len(t, admin1[operators.List[trail.Record]](h, http.MethodGet, "/audit?event=operator-install-reissued", nil).Items, 2)
	refused(t, h.send(h.request(http.MethodPost, "/api/v1/orgs/default/operators/op-eu/install", h.token, `{"format":"punch cards"}`)), controlapi.ReasonValidationFailed)
}

// Every format has the same secrets, once each, and may be kept by nobody.
func TestInstallFormats(t *testing.T) {
	h := newInstallHarness(t)
	for _, format := range install.Formats() {
		resp := h.send(h.request(http.MethodPost, "/api/v1/orgs/default/operators/op-eu/install", h.token, `{"format":"`+string(format)+`"}`))
		assert.Equal(t, http.StatusOK, resp.StatusCode, format)
		assert.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
		out := admin1[Install](h, http.MethodPost, "/operators/op-eu/install", InstallRequest{Format: format})
		assert.Equal(t, format, out.Format)
		text := ""
		for _, b := range out.Blocks {
			assert.NotEmpty(t, b.Where)
			text += b.Text
		}
		assert.Len(t, printedToken.FindAllString(text, -1), 2, format)
		assert.Equal(t, 1, strings.Count(text, string(controlapi.SecretHeartbeat)), format)
		assert.Contains(t, text, "op-central.continuum-system.svc", format)
	}
	out := admin1[Install](h, http.MethodPost, "/operators/op-central/install", InstallRequest{Format: install.Flux})
	assert.Contains(t, out.file(t, "op-central-release.yaml").Text, "continuum-fusion")
}

// AD-18, AD-23: what is printed after an address was recorded dials it, a sender's
// own address first.
func TestInstallDialsTheRecordedAddress(t *testing.T) {
	h := newInstallHarness(t)
	dials := func(address string) {
		t.Helper()
		out := admin1[Install](h, http.MethodPost, "/operators/op-eu/install", nil)
		assert.Contains(t, out.file(t, "install.sh").Text, `"endpoint":"`+address+`"`)
		assert.NotContains(t, strings.Join(out.Warnings, "\n"), "ikhnos operator address")
	}
	admin1[operators.Operator](h, http.MethodPatch, "/operators/op-central", operators.AddressRequest{Address: "central.example.com"})
	dials("central.example.com:4317")
	admin1[operators.Sender](h, http.MethodPut, "/operators/op-central/senders/op-eu", operators.SenderRequest{Address: "100.64.0.9:30317"})
	dials("100.64.0.9:30317")
}

// HB-25: without --public-url the commands name the host that the caller used, and say
// so when other clusters cannot reach it.
func TestInstallWithoutPublicURL(t *testing.T) {
	h := newHarness(t)
	h.operator("op-eu")
	for host, warned := range map[string]bool{
		"localhost:8443": true, "ikhnos.ikhnos.svc": true, "10.1.2.3:8443": true, "127.0.0.1": true, "[::1]:8443": true,
		"ikhnos.example.com": false, "ikhnos.example.com:8443": false, "192.0.2.7:8443": false,
	} {
		r := h.request(http.MethodPost, "/api/v1/orgs/default/operators/op-eu/install", h.token, nil)
		r.Host = host
		var out Install
		h.send(r).decode(t, &out)
		assert.Contains(t, out.file(t, "install.sh").Text, `"server":"https://`+host+`"`)
		assert.Equal(t, warned, strings.Contains(strings.Join(out.Warnings, "\n"), "--public-url"), host)
	}
}

// IN-2, IN-10: clusters that were named at the creation are pointed at it, each by
// a token of its own; one that may not send is left out, and said.
func TestInstallSources(t *testing.T) {
	h := newInstallHarness(t)
	for _, id := range []string{"c1", "c2"} {
		admin1[operators.Cluster](h, http.MethodPut, "/clusters/"+id, operators.ClusterRequest{})
		admin1[operators.Cluster](h, http.MethodPost, "/clusters/"+id+"/approve", nil)
	}
	admin1[operators.Operator](h, http.MethodPut, "/operators/op-w", operators.OperatorRequest{
		Name: "West", SourceClusterIDs: []string{"c1", "c2"},
		Destination: &operators.Destination{Kind: operators.DestinationOTLP, Endpoint: "store:4317"},
	})
	admin1[controlapi.Receipt](h, http.MethodPost, "/operators/op-w/senders/c2/revoke", operators.RevokeRequest{Reason: operators.RevokeRetired})
	out := admin1[Install](h, http.MethodPost, "/operators/op-w/install", nil)
	text, where := "", ""
	for _, b := range out.Blocks {
		text, where = text+b.Text, where+b.Where+"\n"
	}
	assert.Len(t, printedToken.FindAllString(text, -1), 2)
	assert.Contains(t, where, "in the cluster c1")
	assert.NotContains(t, where, "in the cluster c2")
	assert.Contains(t, text, "helm upgrade --install --create-namespace continuum-agent")
	assert.Contains(t, text, `"endpoint":"op-w-regional-operator.continuum-system.svc:4317"`)
	require.Len(t, out.Warnings, 2)
	assert.Contains(t, out.Warnings[1], "Cluster c2 is left out")
}
