// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"html"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/internal/controlapi"
)

// Contract, section 4: what a machine path answers and wants, as the document says.
func TestOpenAPIOfMachinePaths(t *testing.T) {
	doc := newHarness(t).document()
	for route, want := range map[string]struct{ security, status, media string }{
		"POST " + controlapi.RouteRenew:        {holderProof, "200", "application/json"},
		"GET " + controlapi.RoutePolicy:        {holderProof, "200", "application/jose"},
		"POST " + controlapi.RoutePolicyReport: {holderProof, "204", ""},
		"POST " + controlapi.RouteHeartbeat:    {heartbeatSecret, "200", ""},
		"GET " + controlapi.RouteCRL("{id}"):   {"", "200", controlapi.CRLContentType},
		"GET /healthz":                         {"", "200", "application/json"},
	} {
		method, path, _ := strings.Cut(route, " ")
		op := doc.Paths[path][strings.ToLower(method)]
		if want.security != "" {
			assert.Equal(t, []map[string][]string{{want.security: {}}}, op.Security, route)
		}
		answer, ok := op.Responses[want.status]
		assert.True(t, ok, route)
		assert.Equal(t, want.media != "", len(answer.Content) == 1 && answer.Content[want.media] != nil, route)
	}
	assert.Contains(t, doc.Paths[controlapi.RoutePolicy]["get"].Responses, "304")
}

// Contract, section 4: "`type` (`/help/errors/<reason>`, served by the server
// itself)"; a collector's refusals point there too.
func TestHelpPages(t *testing.T) {
	h := newHarness(t)
	for _, e := range controlapi.Explanations() {
		a := h.send(h.request(http.MethodGet, "/help/errors/"+e.Reason, "", nil))
		require.Equal(t, http.StatusOK, a.StatusCode)
		assert.Contains(t, a.Header.Get("Content-Type"), "text/html")
		assert.Contains(t, html.UnescapeString(string(a.body)), e.Remedy)
		assert.Contains(t, html.UnescapeString(string(a.body)), e.Counted)
	}
	refused(t, h.send(h.request(http.MethodGet, "/help/errors/%3Cscript%3E", "", nil)), controlapi.ReasonNotFound)
}

// Contract, section 4: "Errors are RFC 9457", also on paths beside which a web
// page answers everything else.
func TestWrongMethodBesideWebPage(t *testing.T) {
	h := newHarness(t, func(c *Config) { c.Web = http.NotFoundHandler() })
	for _, path := range []string{"/healthz", "/help/errors/internal"} {
		wrong := h.send(h.request(http.MethodPost, path, "", nil))
		refused(t, wrong, controlapi.ReasonMethodNotAllowed)
		assert.Contains(t, wrong.Header.Get("Allow"), "GET")
	}
	assert.Equal(t, http.StatusNotFound, h.send(h.request(http.MethodGet, "/page", "", nil)).StatusCode)
	refused(t, h.send(h.request(http.MethodGet, "/page?holder=%00", "", nil)), controlapi.ReasonRequestMalformed)
}
