// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bufio"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/audit/trail"
	"github.com/ikhnos/continuum/control/liveness"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// tokenOf makes an admin token of a role in the harness' organisation.
func (h *harness) tokenOf(role operators.AdminRole) string {
	h.t.Helper()
	return admin1[operators.AdminToken](h, http.MethodPost, "/admin-tokens", operators.AdminTokenRequest{Name: string(role), Role: role}).Token
}

// document reads the served API document.
func (h *harness) document() (doc struct {
	OpenAPI string
	Paths   map[string]map[string]struct {
		Description string
		Security    []map[string][]string
		Responses   map[string]struct{ Content map[string]any }
	}
}) {
	h.t.Helper()
	a := h.send(h.request(http.MethodGet, "/api/openapi.json", "", nil))
	require.Equal(h.t, http.StatusOK, a.StatusCode)
	a.decode(h.t, &doc)
	return doc
}

// contractRoutes is the table of section 4.
var contractRoutes = []string{
	"POST /api/v1/orgs", "GET /api/v1/orgs",
	"PUT O/clusters/{id}", "POST O/clusters", "GET O/clusters", "GET O/clusters/{id}", "POST O/clusters/{id}/approve", "POST O/clusters/{id}/revoke", "DELETE O/clusters/{id}",
	"PUT O/operators/{id}", "POST O/operators", "GET O/operators", "GET O/operators/{id}", "PATCH O/operators/{id}", "POST O/operators/{id}/revoke", "DELETE O/operators/{id}",
	"POST O/operators/{id}/install", "POST O/operators/{id}/heartbeat",
	"PUT O/operators/{id}/senders/{holder}", "GET O/operators/{id}/senders", "POST O/operators/{id}/senders/{holder}/revoke", "POST O/operators/{id}/senders/{holder}/restore", "POST O/operators/{id}/senders/{holder}/rekey",
	"POST O/operators/{id}/enrollment-tokens", "GET O/operators/{id}/enrollment-tokens", "DELETE O/operators/{id}/enrollment-tokens/{token}",
	"GET O/operators/{id}/certificates", "GET O/certificates", "POST O/operators/{id}/certificates/{serial}/revoke",
	"GET O/senders", "GET O/summary", "GET O/receipts/{receipt}", "GET O/audit", "GET O/operators/{id}/ledger/head", "GET O/operators/{id}/ledger", "GET O/events",
	"POST O/admin-tokens", "GET O/admin-tokens", "DELETE O/admin-tokens/{token}",
	"POST /api/v1/operator-certificates/enroll", "POST /api/v1/operator-certificates/renew", "GET /api/v1/operator-policy", "POST /api/v1/operator-policy/report",
	"GET /api/v1/operators/{id}/crl", "POST /api/v1/operator-heartbeat", "GET /healthz", "GET /readyz",
}

func TestOpenAPIListsEveryRoute(t *testing.T) {
	h := newHarness(t)
	doc := h.document()
	assert.True(t, strings.HasPrefix(doc.OpenAPI, "3.1"))
	for _, route := range contractRoutes {
		method, path, _ := strings.Cut(route, " ")
		path = strings.Replace(path, "O/", orgPath+"/", 1)
		assert.Contains(t, doc.Paths[path], strings.ToLower(method), route)
	}
}

// TestEveryRouteWantsItsRole walks the document: without a token 401, with a
// weaker role 403, before the body is looked at.
func TestEveryRouteWantsItsRole(t *testing.T) {
	h := newHarness(t, func(c *Config) { c.TrustedProxies = loopback() })
	roles := []operators.AdminRole{operators.RoleViewer, operators.RoleConnector, operators.RoleAdmin, operators.RoleServer}
	tokens := map[operators.AdminRole]string{}
	for _, role := range roles {
		tokens[role] = h.tokenOf(role)
	}
	fill := strings.NewReplacer("{org}", "default", "{id}", "op-none", "{holder}", "c-none", "{token}", "t", "{serial}", "ab", "{receipt}", "r")
	n := 0
	for path, methods := range h.document().Paths {
		for method, op := range methods {
			if len(op.Security) == 0 || op.Security[0]["adminToken"] == nil {
				continue
			}
			n++
			req := func(token string) *http.Request {
				r := h.request(strings.ToUpper(method), fill.Replace(path), token, "not JSON")
				r.Header.Set("X-Forwarded-For", "198.51.100."+string(rune('0'+n%10))+string(rune('0'+n/10%10)))
				return r
			}
			refused(t, h.send(req("")), controlapi.ReasonAdminUnauthenticated)
			needed := operators.AdminRole(strings.TrimSuffix(strings.TrimPrefix(op.Description, "Smallest role: "), "."))
			require.Contains(t, roles, needed, "%s %s", method, path)
			if at := slices.Index(roles, needed); at > 0 {
				refused(t, h.send(req(tokens[roles[at-1]])), controlapi.ReasonForbidden)
			}
			if strings.Contains(path, "{org}") {
				other := h.request(strings.ToUpper(method), strings.Replace(fill.Replace(path), "/default", "/no-such-org", 1), tokens[operators.RoleAdmin], "not JSON")
				refused(t, h.send(other), controlapi.ReasonNotFound)
			}
		}
	}
	assert.Greater(t, n, 35)
}

// TestOrganisationsAreIsolated: what belongs to another organisation is answered
// exactly like what does not exist.
func TestOrganisationsAreIsolated(t *testing.T) {
	h := newHarness(t)
	h.operator("op-eu", "c1")
	sender := h.holder("op-eu", "c1")
	token := admin1[operators.Token](h, http.MethodPost, "/operators/op-eu/enrollment-tokens", operators.TokenRequest{Role: controlapi.RoleReceiver})
	receipt := admin1[controlapi.Receipt](h, http.MethodPost, "/operators/op-eu/senders/c1/revoke", map[string]string{"reason": "hold"})
	a := h.send(h.request(http.MethodPost, "/api/v1/orgs", h.token, operators.OrgRequest{ID: "other", Name: "Other"}))
	require.Equal(t, http.StatusCreated, a.StatusCode, "%s", a.body)
	var other operators.Org
	a.decode(t, &other)
	require.NotEmpty(t, other.AdminToken)

	refused(t, h.send(h.request(http.MethodGet, "/api/v1/orgs/default/operators", other.AdminToken, nil)), controlapi.ReasonNotFound)
	refused(t, h.send(h.request(http.MethodGet, "/api/v1/orgs", other.AdminToken, nil)), controlapi.ReasonForbidden)
	for _, call := range []struct{ method, path, body string }{
		{"GET", "/operators/op-eu", ""}, {"PATCH", "/operators/op-eu", `{"address":"eu.example.com:4317"}`}, {"DELETE", "/operators/op-eu", ""},
		{"POST", "/operators/op-eu/revoke", ""}, {"POST", "/operators/op-eu/heartbeat", ""}, {"POST", "/operators/op-eu/install", ""},
		{"GET", "/operators/op-eu/senders", ""}, {"GET", "/operators/op-eu/senders/c1", ""}, {"PUT", "/operators/op-eu/senders/c1", "{}"},
		{"POST", "/operators/op-eu/senders/c1/revoke", `{"reason":"hold"}`}, {"POST", "/operators/op-eu/senders/c1/restore", ""}, {"POST", "/operators/op-eu/senders/c1/rekey", ""},
		{"GET", "/operators/op-eu/enrollment-tokens", ""}, {"POST", "/operators/op-eu/enrollment-tokens", `{"role":"receiver"}`}, {"DELETE", "/operators/op-eu/enrollment-tokens/" + token.TokenID, ""},
		{"GET", "/operators/op-eu/certificates", ""}, {"POST", "/operators/op-eu/certificates/" + sender.Serial + "/revoke", ""},
		{"GET", "/operators/op-eu/ledger/head", ""}, {"GET", "/operators/op-eu/ledger", ""}, {"GET", "/receipts/" + receipt.ReceiptID, ""},
		{"GET", "/clusters/c1", ""}, {"POST", "/clusters/c1/approve", ""}, {"POST", "/clusters/c1/revoke", ""}, {"DELETE", "/clusters/c1", ""},
	} {
		var body any
		if call.body != "" {
			body = call.body
		}
		theirs := h.send(h.request(call.method, "/api/v1/orgs/other"+call.path, other.AdminToken, body))
		missing := h.send(h.request(call.method, "/api/v1/orgs/other"+strings.NewReplacer("op-eu", "op-xx", "c1", "c9", receipt.ReceiptID, "rcp-x").Replace(call.path), other.AdminToken, body))
		first, second := refused(t, theirs, controlapi.ReasonNotFound), refused(t, missing, controlapi.ReasonNotFound)
		first.RequestID, second.RequestID = "", ""
		assert.Equal(t, second, first, "%s %s", call.method, call.path)
	}
	h.org, h.token = "other", other.AdminToken
	for _, path := range []string{"/certificates?operator=op-eu", "/senders?operator=op-eu", "/clusters", "/operators"} {
		assert.Empty(t, admin1[operators.List[any]](h, http.MethodGet, path, nil).Items, path)
	}
	assert.NotContains(t, string(h.send(h.request(http.MethodGet, "/api/v1/orgs/other/audit", h.token, nil)).body), "op-eu")
}

func TestRequestsThatCannotBeRead(t *testing.T) {
	h := newHarness(t)
	path := "/api/v1/orgs/default/clusters"
	for name, body := range map[string]string{
		"empty": "", "not JSON": "x", "two documents": `{"id":"a"}{}`, "an array": `[]`, "null": `null`,
		"an unknown field": `{"id":"a","colour":"red"}`, "another case": `{"ID":"a"}`, "a key twice": `{"id":"a","id":"b"}`,
		"a label twice": `{"id":"a","labels":{"x":"1","x":"2"}}`, "a number for text": `{"id":1}`, "text for an object": `{"id":"a","labels":"x"}`,
		"a null id": `{"id":null}`, "a negative tenant": `{"id":"a","tenant":{"account":-1,"project":0}}`, "an unknown field inside": `{"id":"a","tenant":{"account":1,"project":0,"x":1}}`,
		"not UTF-8": "{\"id\":\"\xff\"}", "a BOM": "\ufeff{\"id\":\"a\"}",
	} {
		p := refused(t, h.send(h.request(http.MethodPost, path, h.token, body)), controlapi.ReasonRequestMalformed)
		assert.NotContains(t, p.Detail, "colour", name)
	}
	for name, query := range map[string]string{
		"limit 0": "?limit=0", "limit 501": "?limit=501", "limit as text": "?limit=x", "a bad cursor": "?cursor=!", "an unknown parameter": "?colour=red",
		"a parameter twice": "?limit=1&limit=2", "an escape cut": "?limit=%", "an unknown word": "?state=asleep",
	} {
		refused(t, h.send(h.request(http.MethodGet, path+query, h.token, nil)), controlapi.ReasonRequestMalformed)
		_ = name
	}
	refused(t, h.send(h.request(http.MethodGet, "/api/v1/orgs/default/certificates?endsBefore=tomorrow", h.token, nil)), controlapi.ReasonRequestMalformed)
	refused(t, h.send(h.request(http.MethodPut, path+"/a", h.token, `{"id":"b"}`)), controlapi.ReasonRequestMalformed)

	p := refused(t, h.send(h.request(http.MethodPost, path, h.token, `{"id":"No","silentAfter":"x"}`)), controlapi.ReasonValidationFailed)
	assert.Len(t, p.Errors, 2)
	refused(t, h.send(h.request(http.MethodPut, path+"/No", h.token, `{}`)), controlapi.ReasonValidationFailed)

	refused(t, h.send(h.request(http.MethodPost, path, h.token, strings.Repeat(" ", controlapi.MaxBodyBytes+1))), controlapi.ReasonBodyTooLarge)
	typed := h.request(http.MethodPost, path, h.token, `{"id":"a"}`)
	typed.Header.Set("Content-Type", "text/plain")
	refused(t, h.send(typed), controlapi.ReasonMediaTypeUnsupported)
	encoded := h.request(http.MethodPost, path, h.token, `{"id":"a"}`)
	encoded.Header.Set("Content-Encoding", "identity")
	refused(t, h.send(encoded), controlapi.ReasonMediaTypeUnsupported)
	charset := h.request(http.MethodPost, path, h.token, `{"id":"a"}`)
	charset.Header.Set("Content-Type", "application/json; charset=utf-8")
	assert.Equal(t, http.StatusCreated, h.send(charset).StatusCode)

	wrong := h.send(h.request(http.MethodPatch, path, h.token, `{}`))
	refused(t, wrong, controlapi.ReasonMethodNotAllowed)
	assert.Contains(t, wrong.Header.Get("Allow"), "POST")
	for _, path := range []string{"/", "/api", "/api/v1/nothing", "//api/v1/orgs", "/api/v1/orgs/default/../default/clusters", path + "/", "/api/v1/orgs/"} {
		refused(t, h.send(h.request(http.MethodGet, path, h.token, nil)), controlapi.ReasonNotFound)
	}
}

// TestConflicts: what exists already, and what is still in use.
func TestConflicts(t *testing.T) {
	h := newHarness(t)
	h.operator("op-eu", "c1")
	org := "/api/v1/orgs/default"
	refused(t, h.send(h.request(http.MethodPost, org+"/clusters", h.token, `{"id":"c1"}`)), controlapi.ReasonNameTaken)
	refused(t, h.send(h.request(http.MethodPut, org+"/operators/op-eu", h.token, `{"name":"Other","destination":{"kind":"otlp","endpoint":"store.example.com:4317"}}`)), controlapi.ReasonStateConflict)
	refused(t, h.send(h.request(http.MethodPost, org+"/operators", h.token, `{"name":"x","destination":{"kind":"operator","operatorId":"op-none"}}`)), controlapi.ReasonDestinationNotAllowed)
	p := refused(t, h.send(h.request(http.MethodDelete, org+"/operators/op-eu", h.token, nil)), controlapi.ReasonInUse)
	require.NotNil(t, p.Dependents)
	assert.Equal(t, 1, p.Dependents.Clusters)
	refused(t, h.send(h.request(http.MethodDelete, org+"/operators/op-eu?force=yes", h.token, nil)), controlapi.ReasonRequestMalformed)
	created := h.send(h.request(http.MethodPut, org+"/clusters/c2", h.token, `{}`))
	assert.Equal(t, http.StatusCreated, created.StatusCode)
	assert.Equal(t, http.StatusOK, h.send(h.request(http.MethodPut, org+"/clusters/c2", h.token, `{}`)).StatusCode)
	refused(t, h.send(h.request(http.MethodPut, org+"/operators/op-eu/senders/c2", h.token, `{}`)), controlapi.ReasonClusterNotApproved)
	refused(t, h.send(h.request(http.MethodPost, org+"/operators/op-eu/enrollment-tokens", h.token, `{"role":"sender","sender":"c2"}`)), controlapi.ReasonClusterNotApproved)
}

// TestThrottle: failures are counted after the check, 30 a minute, and a right
// credential is never throttled (HB-23).
func TestThrottle(t *testing.T) {
	h := newHarness(t, func(c *Config) { c.TrustedProxies = loopback() })
	h.operator("op-eu")
	secret := admin1[operators.HeartbeatSecret](h, http.MethodPost, "/operators/op-eu/heartbeat", nil).Secret
	try := func(from, token string) *answered {
		req := h.request(http.MethodGet, "/api/v1/orgs/default/clusters", token, nil)
		req.Header.Set("X-Forwarded-For", from)
		return h.send(req)
	}
	for range 30 {
		refused(t, try("2001:db8::1", "wrong"), controlapi.ReasonAdminUnauthenticated)
	}
	a := try("2001:db8::2", "wrong")
	refused(t, a, controlapi.ReasonRateLimited)
	assert.Regexp(t, `^([1-9]|[1-5][0-9]|60)$`, a.Header.Get("Retry-After"))
	beat := h.request(http.MethodPost, controlapi.RouteHeartbeat, "wrong", nil)
	beat.Header.Set("X-Forwarded-For", "2001:db8::3")
	refused(t, h.send(beat), controlapi.ReasonRateLimited)
	beat.Header.Set("Authorization", "Bearer "+secret)
	assert.Equal(t, http.StatusOK, h.send(beat).StatusCode)
	assert.Equal(t, http.StatusOK, try("2001:db8::1", h.token).StatusCode, "a right credential is never throttled")
	refused(t, try("2001:db8:0:1::1", "wrong"), controlapi.ReasonAdminUnauthenticated)
	refused(t, try("192.0.2.1, 2001:db8::1", "wrong"), controlapi.ReasonRateLimited)
	h.clock.add(time.Minute)
	refused(t, try("2001:db8::1", "wrong"), controlapi.ReasonAdminUnauthenticated)
}

// TestForwardedOnlyFromProxies: without a trusted proxy the header says nothing.
func TestForwardedOnlyFromProxies(t *testing.T) {
	h := newHarness(t)
	for i := range 31 {
		req := h.request(http.MethodGet, "/api/v1/orgs", "wrong", nil)
		req.Header.Set("X-Forwarded-For", "192.0.2."+string(rune('0'+i%10)))
		a := h.send(req)
		if i == 30 {
			refused(t, a, controlapi.ReasonRateLimited)
		}
	}
}

// TestSplitListeners: with --admin-listen each handler has its half.
func TestSplitListeners(t *testing.T) {
	var machineOnly *Server
	h := newHarness(t, func(c *Config) {
		split := *c
		split.Split, split.Registry = true, nopRegisterer{}
		var err error
		machineOnly, err = New(split)
		require.NoError(t, err)
	})
	full := h.http
	for _, tc := range []struct {
		handler        http.Handler
		machine, admin bool
	}{{machineOnly.Machine, true, false}, {machineOnly.Admin, false, true}} {
		h.serve(tc.handler)
		for path, want := range map[string]bool{"/healthz": tc.machine, "/readyz": tc.machine, "/api/v1/orgs": tc.admin, "/api/openapi.json": tc.admin, "/help/errors/internal": true} {
			assert.Equal(t, want, h.send(h.request(http.MethodGet, path, h.token, nil)).StatusCode == http.StatusOK, path)
		}
		beat := h.send(h.request(http.MethodPost, controlapi.RouteHeartbeat, "", nil))
		assert.Equal(t, tc.machine, beat.StatusCode == http.StatusUnauthorized)
	}
	h.http = full
}

// TestReading: lists page, the chain is lines, events arrive.
func TestReading(t *testing.T) {
	h := newHarness(t)
	h.operator("op-eu", "c1", "c2")
	held := h.holder("op-eu", "c1")
	receiver := h.holder("op-eu", "")
	r := reportOf("i1", controlapi.Version{Epoch: 1, Number: 1})
	seen := controlapi.Seconds(h.clock.now())
	r.Senders = []controlapi.ReportSender{{Name: held.Name, Serial: held.Serial, LastAcceptedAt: &seen, Accepted: controlapi.SignalCounts{Logs: 3}}}
	require.Equal(t, http.StatusNoContent, h.report(receiver, r).StatusCode)

	senders := admin1[operators.List[liveness.SenderStatus]](h, http.MethodGet, "/senders", nil).Items
	require.Len(t, senders, 2)
	assert.Equal(t, liveness.StatusActive, senders[0].Status)
	assert.EqualValues(t, 3, senders[0].Accepted.Logs)
	assert.Equal(t, liveness.StatusNotEnrolled, senders[1].Status)
	assert.Len(t, admin1[operators.List[any]](h, http.MethodGet, "/senders?state=active&operator=op-eu&cluster=c1", nil).Items, 1)
	assert.Empty(t, admin1[operators.List[any]](h, http.MethodGet, "/senders?state=silent", nil).Items)
	refused(t, h.send(h.request(http.MethodGet, "/api/v1/orgs/default/senders?state=odd", h.token, nil)), controlapi.ReasonRequestMalformed)

	summary := admin1[liveness.Summary](h, http.MethodGet, "/summary", nil)
	assert.Equal(t, map[string]int{"approved": 2}, summary.Clusters)
	assert.Equal(t, map[string]int{liveness.StatusActive: 1, liveness.StatusNotEnrolled: 1}, summary.Senders)
	require.NotNil(t, summary.NextRenewal)

	var all []trail.Record
	for cursor := ""; ; {
		page := admin1[operators.List[trail.Record]](h, http.MethodGet, "/audit?limit=3&cursor="+cursor, nil)
		all = append(all, page.Items...)
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	assert.True(t, slices.IsSortedFunc(all, func(a, b trail.Record) int { return int(b.Sequence - a.Sequence) }))
	assert.Len(t, admin1[operators.List[trail.Record]](h, http.MethodGet, "/audit?event=cluster-approved", nil).Items, 2)
	refused(t, h.send(h.request(http.MethodGet, "/api/v1/orgs/default/audit?cursor=x", h.token, nil)), controlapi.ReasonRequestMalformed)

	a := h.send(h.request(http.MethodGet, "/api/v1/orgs/default/operators/op-eu/ledger?after=1", h.token, nil))
	lines := strings.Split(strings.TrimSpace(string(a.body)), "\n")
	require.Len(t, lines, 2, "%s", a.body)
	var event struct {
		Event struct {
			Sequence int
			Type     string
		}
		Hash string
	}
	require.NoError(t, json.Unmarshal([]byte(lines[1]), &event))
	head := admin1[map[string]any](h, http.MethodGet, "/operators/op-eu/ledger/head", nil)
	assert.Equal(t, event.Hash, head["hash"])
	assert.Equal(t, "issued", event.Event.Type)
}

func TestEvents(t *testing.T) {
	h := newHarness(t)
	h.operator("op-eu", "c1")
	resp, err := h.http.Client().Do(h.request(http.MethodGet, "/api/v1/orgs/default/events", h.token, nil))
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
	lines := bufio.NewScanner(resp.Body)
	next := func() string {
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				return data
			}
		}
		return ""
	}
	first := next()
	require.NotEmpty(t, first)
	admin1[controlapi.Receipt](h, http.MethodPost, "/operators/op-eu/senders/c1/revoke", map[string]string{"reason": "hold"})
	assert.NotEqual(t, first, next())
	h.hub.Stop()
	assert.Empty(t, next(), "a stopping server ends the stream")
}

// TestNothingSecretIsLogged: no token, key, request or proof in the log.
func TestNothingSecretIsLogged(t *testing.T) {
	h := newHarness(t)
	h.operator("op-eu", "c1")
	token, key := h.mint("op-eu", "c1"), newKey(t)
	held := h.holding(h.enroll(token, key), key)
	h.renew(held, newKey(t))
	h.enroll(token, newKey(t))
	log := h.log.String()
	require.Contains(t, log, "route=")
	for _, secret := range []string{h.token, token, "BEGIN", "Holder ey", "ikadm_", "iktok_"} {
		assert.NotContains(t, log, secret)
	}
}
