// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// A refusal says of the case itself what is wrong: it names the object that the
// server has, what of it, and where to look for one that it has not.
func TestRefusalsSayWhichAndWhy(t *testing.T) {
	h := newHarness(t)
	h.operator("op-eu", "c1", "c2")
	admin1[operators.Operator](h, http.MethodPut, "/operators/op-c", operators.OperatorRequest{Name: "Central", Role: operators.RoleCentral})
	admin1[operators.Cluster](h, http.MethodPut, "/clusters/new", operators.ClusterRequest{})
	admin1[operators.Cluster](h, http.MethodPut, "/clusters/gone", operators.ClusterRequest{})
	admin1[controlapi.Receipt](h, http.MethodPost, "/clusters/gone/revoke", nil)
	admin1[controlapi.Receipt](h, http.MethodPost, "/operators/op-eu/senders/c1/revoke", operators.RevokeRequest{Reason: operators.RevokeCompromised})
	admin1[controlapi.Receipt](h, http.MethodPost, "/operators/op-eu/senders/c2/revoke", operators.RevokeRequest{Reason: operators.RevokeHold})
	admin1[operators.Operator](h, http.MethodPut, "/operators/op-old", operators.OperatorRequest{Name: "Old", Role: operators.RoleCentral})
	admin1[operators.Removal](h, http.MethodPost, "/operators/op-old/revoke", nil)
	viewer := h.tokenOf(operators.RoleViewer)
	sender := `{"role":"sender","sender":"`
	to := `{"name":"x","destination":{"kind":"operator","operatorId":"`

	for _, tc := range []struct {
		call, body string
		reason     controlapi.Reason
		says       []string
	}{
		{"POST /clusters", `{"id":"c1"}`, controlapi.ReasonNameTaken, []string{"Cluster c1"}},
		{"POST /operators", `{"id":"op-eu","name":"x","role":"central"}`, controlapi.ReasonNameTaken, []string{"never used again"}},
		{"PUT /operators/op-eu", `{"name":"x","role":"central","labels":{"a":"b"}}`, controlapi.ReasonStateConflict, []string{"op-eu", "name, role, destination, labels"}},
		{"PUT /operators/op-x", to + `op-none"}}`, controlapi.ReasonDestinationNotAllowed, []string{"no operator of the id"}},
		{"PUT /operators/op-x", to + `op-eu"}}`, controlapi.ReasonDestinationNotAllowed, []string{"op-eu", "regional"}},
		{"PUT /operators/op-x", to + `op-old"}}`, controlapi.ReasonDestinationNotAllowed, []string{"op-old", "revoked"}},
		{"PUT /operators/op-x", `{"name":"x","role":"central","sourceClusterIds":["c1","new","none"]}`, controlapi.ReasonValidationFailed, []string{"new is pending", "no cluster of it"}},
		{"PATCH /operators/op-old", `{"address":"eu.example.com"}`, controlapi.ReasonOperatorRevoked, []string{"op-old", "revoked on 20"}},
		{"DELETE /operators/op-eu", "", controlapi.ReasonInUse, []string{"op-eu", "0 operators and 1 cluster"}},
		{"PUT /operators/op-eu/senders/new", `{}`, controlapi.ReasonClusterNotApproved, []string{"Cluster new", "waits for its approval"}},
		{"PUT /operators/op-eu/senders/gone", `{}`, controlapi.ReasonClusterNotApproved, []string{"Cluster gone", "revoked"}},
		{"PUT /operators/op-eu/senders/c1", `{}`, controlapi.ReasonStateConflict, []string{"op-eu-export-c1", "restore"}},
		{"PUT /operators/op-eu/senders/op-c", `{}`, controlapi.ReasonDestinationNotAllowed, []string{"op-c", "op-eu"}},
		{"POST /operators/op-eu/senders/c1/revoke", `{"reason":"hold"}`, controlapi.ReasonStateConflict, []string{"op-eu-export-c1"}},
		{"POST /operators/op-eu/senders/c1/rekey", "", controlapi.ReasonSenderRevoked, []string{"op-eu-export-c1", "restore"}},
		{"POST /operators/op-eu/enrollment-tokens", sender + `c2"}`, controlapi.ReasonSenderHeld, []string{"op-eu-export-c2", "on hold"}},
		{"POST /operators/op-eu/enrollment-tokens", sender + `new"}`, controlapi.ReasonClusterNotApproved, []string{"Cluster new"}},
		{"POST /operators/op-c/enrollment-tokens", sender + `c1"}`, controlapi.ReasonNotFound, []string{"Cluster c1 is not connected to op-c"}},
		{"POST /operators/op-c/enrollment-tokens", sender + `none"}`, controlapi.ReasonNotFound, []string{"no cluster", "/clusters"}},
		{"GET /operators/op-none", "", controlapi.ReasonNotFound, []string{"no operator", "/operators"}},
		{"GET /clusters/none", "", controlapi.ReasonNotFound, []string{"no cluster", "/clusters"}},
		{"GET /operators/op-eu/senders/none", "", controlapi.ReasonNotFound, []string{"holder", "/senders"}},
		{"POST /operators/op-eu/certificates/ab/revoke", "", controlapi.ReasonNotFound, []string{"no certificate", "/certificates"}},
		{"DELETE /operators/op-eu/enrollment-tokens/none", "", controlapi.ReasonNotFound, []string{"no enrolment token"}},
		{"DELETE /admin-tokens/none", "", controlapi.ReasonNotFound, []string{"no admin token"}},
		{"GET /receipts/none", "", controlapi.ReasonNotFound, []string{"no receipt"}},
		{"GET /nothing", "", controlapi.ReasonNotFound, []string{"/api/openapi.json"}},
		{"PUT /summary", "", controlapi.ReasonMethodNotAllowed, []string{"GET, HEAD"}},
		{"POST /clusters", strings.Repeat(" ", controlapi.MaxBodyBytes+1), controlapi.ReasonBodyTooLarge, []string{"64 KiB"}},
	} {
		method, path, _ := strings.Cut(tc.call, " ")
		body := any(nil)
		if tc.body != "" {
			body = tc.body
		}
		p := refused(t, h.send(h.request(method, "/api/v1/orgs/default"+path, h.token, body)), tc.reason)
		text := p.Detail
		for _, field := range p.Errors {
			text += " " + field.Detail
		}
		for _, said := range tc.says {
			assert.Contains(t, text, said, tc.call)
		}
		assert.NotContains(t, text, "none", "what does not exist is not named: two ids that nobody has are answered alike")
		assert.NotEqual(t, p.Title, p.Detail, tc.call)
		assert.True(t, strings.HasSuffix(p.Detail, "."), "%s: %s", tc.call, p.Detail)
	}

	p := refused(t, h.send(h.request(http.MethodPost, "/api/v1/orgs/default/clusters", viewer, `{}`)), controlapi.ReasonForbidden)
	assert.Contains(t, p.Detail, "role connector")
	assert.Contains(t, p.Detail, "role viewer")
	for token, said := range map[string]string{
		"": "No admin token came", "ikadm_cut": "mistyped", controlapi.NewSecret(controlapi.SecretAdmin, nil): "not known here",
	} {
		p := refused(t, h.send(h.request(http.MethodGet, "/api/v1/orgs/default/clusters", token, nil)), controlapi.ReasonAdminUnauthenticated)
		assert.Contains(t, p.Detail, said)
		assert.True(t, token == "" || !strings.Contains(p.Detail, token), "a secret is never repeated")
	}
}

// What cannot be read is told by our own names, never by the caller's.
func TestMalformedSaysWhere(t *testing.T) {
	h := newHarness(t)
	for body, said := range map[string]string{
		`{"id":"a","secret-word":1}`:                       "The body has a field that is not known here; it takes: id, kind, labels, silentAfter, tenant.",
		`{"tenant":{"secret-word":1}}`:                     "The field tenant has a field that is not known here; it takes: account, project.",
		`{"id":1}`:                                         "The field id has a value of another type: it takes text.",
		`{"id":null}`:                                      "The field id is null and must have a value.",
		`{"labels":{"secret-word":1}}`:                     "The field labels has a value of another type: it takes text.",
		`{"labels":{"secret-word":"a","secret-word":"b"}}`: "The field labels has the same key twice.",
		`{"labels":[]}`:                                    "The field labels has a value of another type: it takes an object.",
		`{"tenant":{"account":-1}}`:                        "The field tenant.account has a value of another type: it takes a whole number from 0 to 4294967295.",
		`{"tenant":{"account":4294967296}}`:                "The field tenant.account has a value of another type: it takes a whole number from 0 to 4294967295.",
		`{"id":"a","id":"b"}`:                              "The body has the same key twice.",
		`secret-word`:                                      "The body is not one JSON document.",
		`[]`:                                               "The body has a value of another type: it takes an object.",
		`{"id":"a"}{}`:                                     "Text follows the JSON document.",
	} {
		p := refused(t, h.send(h.request(http.MethodPost, "/api/v1/orgs/default/clusters", h.token, body)), controlapi.ReasonRequestMalformed)
		assert.Equal(t, said, p.Detail, body)
	}
	for query, said := range map[string]string{
		"secret-word=1": "it takes: limit, cursor, state, kind", "limit=1&limit=2": "has the parameter limit twice", "state=secret-word": "pending, approved, revoked",
		"limit=secret-word": "from 1 to 500", "cursor=secret-word": "did not come from this list",
	} {
		p := refused(t, h.send(h.request(http.MethodGet, "/api/v1/orgs/default/clusters?"+query, h.token, nil)), controlapi.ReasonRequestMalformed)
		assert.Contains(t, p.Detail, said)
		assert.NotContains(t, p.Detail, "secret-word")
	}
	p := refused(t, h.send(h.request(http.MethodGet, "/api/v1/orgs/default/receipts/r?wait=11", h.token, nil)), controlapi.ReasonRequestMalformed)
	assert.Contains(t, p.Detail, "from 0 to 10")
	p = refused(t, h.send(h.request(http.MethodGet, "/api/v1/orgs/default/summary?x=1", h.token, nil)), controlapi.ReasonRequestMalformed)
	assert.Contains(t, p.Detail, "takes no query")
}

// A PATCH without an address changes nothing: forgetting one has to be said.
func TestPatchNeedsAnAddress(t *testing.T) {
	h := newHarness(t)
	h.operator("op-eu")
	path := "/api/v1/orgs/default/operators/op-eu"
	admin1[operators.Operator](h, http.MethodPatch, "/operators/op-eu", map[string]string{"address": "eu.example.com"})
	for _, body := range []string{`{}`, `{"address":null}`} {
		p := refused(t, h.send(h.request(http.MethodPatch, path, h.token, body)), controlapi.ReasonValidationFailed)
		require.Len(t, p.Errors, 1)
		assert.Equal(t, "address", p.Errors[0].Field)
	}
	assert.Equal(t, "eu.example.com:4317", admin1[operators.Operator](h, http.MethodGet, "/operators/op-eu", nil).Address)
	assert.Empty(t, admin1[operators.Operator](h, http.MethodPatch, "/operators/op-eu", map[string]string{"address": ""}).Address)
}

// Contract, section 11: "a rule on a value, ids in `PUT` paths included,
// `validation_failed`".
func TestPutPathsAreValidated(t *testing.T) {
	h := newHarness(t)
	h.operator("op-eu")
	for path, field := range map[string]string{
		"/clusters/No": "id", "/clusters/op-x": "id", "/clusters/" + strings.Repeat("c", 32): "id", "/operators/eu": "id", "/operators/op-a-export-b": "id",
		"/operators/op-eu/senders/No": "holder", "/operators/op-eu/senders/" + strings.Repeat("c", 32): "holder", "/operators/eu/senders/c1": "id",
		"/operators/op-eu/senders/op-" + strings.Repeat("c", 22): "holder",
	} {
		body := `{}`
		if strings.Count(path, "/") == 2 && strings.HasPrefix(path, "/operators/") {
			body = `{"name":"x","role":"central"}`
		}
		p := refused(t, h.send(h.request(http.MethodPut, "/api/v1/orgs/default"+path, h.token, body)), controlapi.ReasonValidationFailed)
		require.Len(t, p.Errors, 1, path)
		assert.Equal(t, field, p.Errors[0].Field, path)
	}
	refused(t, h.send(h.request(http.MethodPut, "/api/v1/orgs/default/operators/op-eu/senders/c9", h.token, `{}`)), controlapi.ReasonNotFound)
	refused(t, h.send(h.request(http.MethodPut, "/api/v1/orgs/default/operators/op-none/senders/c9", h.token, `{}`)), controlapi.ReasonNotFound)
}

// One Content-Type, not two: what stands behind the first may read the other.
func TestContentTypeTwice(t *testing.T) {
	h := newHarness(t)
	r := h.request(http.MethodPost, "/api/v1/orgs/default/clusters", h.token, `{"id":"a"}`)
	r.Header.Add("Content-Type", "text/plain")
	refused(t, h.send(r), controlapi.ReasonMediaTypeUnsupported)
}
