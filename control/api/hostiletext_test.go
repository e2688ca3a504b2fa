// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/testpki"
)

// onBothDatabases runs a test on SQLite and, where there is one, on PostgreSQL,
// which refuses texts that SQLite takes.
func onBothDatabases(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Run("SQLite", test)
	t.Run("PostgreSQL", func(t *testing.T) {
		base := os.Getenv("CONTINUUM_TEST_POSTGRES")
		if base == "" {
			t.Skip("CONTINUUM_TEST_POSTGRES holds no URL of a PostgreSQL whose user may create databases")
		}
		run := func(query string) {
			conn, err := pgx.Connect(context.Background(), base)
			require.NoError(t, err)
			defer func() { require.NoError(t, conn.Close(context.Background())) }()
			_, err = conn.Exec(context.Background(), query)
			require.NoError(t, err)
		}
		run("DROP DATABASE IF EXISTS apitest")
		run("CREATE DATABASE apitest")
		t.Cleanup(func() { run("DROP DATABASE apitest WITH (FORCE)") })
		u, err := url.Parse(base)
		require.NoError(t, err)
		u.Path = "/apitest"
		databaseURL = u.String()
		defer func() { databaseURL = "" }()
		test(t)
	})
}

// A NUL, or bytes that are not UTF-8, name nothing: the answer is that of what does
// not exist or cannot be read, on every database, and never a fault of ours.
func TestTextThatNoDatabaseTakes(t *testing.T) {
	onBothDatabases(t, func(t *testing.T) {
		h := newHarness(t)
		h.operator("op-eu", "c1")
		receiver := h.holder("op-eu", "")
		org := "/api/v1/orgs/default"
		for _, odd := range []string{"%00", "%ff", "op-eu%00", "a%2F%00"} {
			for _, call := range []string{
				"GET /operators/X", "GET /operators/X/senders", "GET /operators/op-eu/senders/X", "GET /clusters/X", "GET /receipts/X",
				"GET /operators/X/certificates", "GET /operators/X/ledger", "POST /operators/op-eu/certificates/X/revoke",
				"POST /operators/X/revoke", "DELETE /admin-tokens/X", "DELETE /operators/op-eu/enrollment-tokens/X", "POST /clusters/X/approve",
			} {
				method, path, _ := strings.Cut(call, " ")
				refused(t, h.send(h.request(method, org+strings.Replace(path, "X", odd, 1), h.token, nil)), controlapi.ReasonNotFound)
			}
			refused(t, h.send(h.request(http.MethodGet, "/api/v1/orgs/"+odd+"/clusters", h.token, nil)), controlapi.ReasonNotFound)
			refused(t, h.send(h.request(http.MethodGet, "/api/v1/operators/"+odd+"/crl", "", nil)), controlapi.ReasonNotFound)
			if !strings.Contains(odd, "%2F") { // otherwise it is a longer path, which no operation has
				refused(t, h.send(h.request(http.MethodPut, org+"/clusters/"+odd, h.token, `{}`)), controlapi.ReasonValidationFailed)
			}
			for _, query := range []string{"/senders?operator=", "/senders?cluster=", "/certificates?holder=", "/certificates?operator=", "/audit?actor=", "/audit?object="} {
				refused(t, h.send(h.request(http.MethodGet, org+query+odd, h.token, nil)), controlapi.ReasonRequestMalformed)
			}
		}
		for _, key := range []string{"[\"\\u0000\",1]", "op\x00", "\x00/c"} {
			cursor := base64.RawURLEncoding.EncodeToString([]byte(key))
			for _, list := range []string{"/certificates", "/senders", "/clusters", "/operators", "/operators/op-eu/enrollment-tokens", "/admin-tokens", "/audit"} {
				refused(t, h.send(h.request(http.MethodGet, org+list+"?cursor="+cursor, h.token, nil)), controlapi.ReasonRequestMalformed)
			}
		}
		for call, reason := range map[string]controlapi.Reason{
			`POST /operators {"name":"x","destination":{"kind":"operator","operatorId":"\u0000"}}`: controlapi.ReasonDestinationNotAllowed,
			`POST /operators {"name":"x","role":"central","sourceClusterIds":["\u0000"]}`:          controlapi.ReasonValidationFailed,
			`POST /operators/op-eu/enrollment-tokens {"role":"sender","sender":"\u0000"}`:          controlapi.ReasonNotFound,
			`POST /operators/op-eu/enrollment-tokens {"role":"sender","sender":"op-\u0000"}`:       controlapi.ReasonNotFound,
			`POST /operators/op-eu/senders/c1/revoke {"reason":"hold","note":"\u0000"}`:            controlapi.ReasonValidationFailed,
			`POST /clusters {"id":"c9","labels":{"a":"\u0000"}}`:                                   controlapi.ReasonValidationFailed,
		} {
			parts := strings.SplitN(call, " ", 3)
			refused(t, h.send(h.request(parts[0], org+parts[1], h.token, parts[2])), reason)
		}
		report := controlapi.Report{Instance: "i1", Denied: &controlapi.ReportDenied{Names: []string{"\x00"}}}
		refused(t, h.report(receiver, &report), controlapi.ReasonValidationFailed)
		ca := testpki.NewCA(t, "op-x")
		var err error
		ca.Cert.RawSubject, err = asn1.Marshal(pkix.Name{CommonName: caNamePrefix + "\x00"}.ToRDNSequence())
		require.NoError(t, err)
		leaf := ca.Receiver(t)
		refused(t, h.renew(&holder{key: leaf.Key, leaf: leaf.Cert}, newKey(t)), controlapi.ReasonLeafUnknown)
		require.NotContains(t, h.log.String(), "level=ERROR")
	})
}

// One operator's report stands in lists beside those of others: nothing in it keeps
// a list from being read, and what breaks a rule is refused.
func TestHostileReports(t *testing.T) {
	h := newHarness(t)
	h.operator("op-eu", "c1")
	receiver, sender := h.holder("op-eu", ""), h.holder("op-eu", "c1")
	good := func() *controlapi.Report {
		at := h.clock.now()
		return &controlapi.Report{
			Instance: "i1", Version: "1", StartedAt: at, ReceiverSerial: receiver.Serial,
			Policy:  controlapi.ReportPolicy{AppliedAt: at, AppliedAtMs: at.UnixMilli()},
			Senders: []controlapi.ReportSender{{Name: "op-eu-export-c1", Serial: sender.Serial, LastAcceptedAt: &at, Refused: map[string]int64{"stale": 1}}},
		}
	}
	require.Equal(t, http.StatusNoContent, h.report(receiver, good()).StatusCode)
	for field, text := range map[string]string{
		"senders.lastAcceptedAt": `"lastAcceptedAt":"9999-12-31T23:59:59-23:00"`, "senders.lastAcceptedAtMs": `"lastAcceptedAtMs":9223372036854775807`,
		"senders.firstRefusedAtMs": `"firstRefusedAtMs":-1`, "senders.accepted": `"accepted":{"traces":0,"metrics":-1,"logs":0}`,
		"senders.refused": `"refused":{"stale":-1}`, "senders.serial": `"serial":"\u0000"`, "senders.name": `"name":"\u202e"`,
	} {
		body := `{"instance":"i1","senders":[{"name":"op-eu-export-c1",` + text + `}]}`
		if field == "senders.name" {
			body = `{"instance":"i1","senders":[{` + text + `}]}`
		}
		h.refusedReport(receiver, body, field)
	}
	for field, text := range map[string]string{
		"instance": `"instance":"a\u0000b"`, "version": `"version":"\u0007"`, "startedAt": `"startedAt":"9999-12-31T23:59:59-23:00"`,
		"clockOffsetMs": `"clockOffsetMs":9223372036854775807`, "receiverSerial": `"receiverSerial":"\u0000"`,
		"policy.appliedAt":   `"policy":{"epoch":1,"number":1,"appliedAt":"9999-12-31T23:59:59-23:00"}`,
		"policy.appliedAtMs": `"policy":{"epoch":1,"number":1,"appliedAt":"2026-01-01T00:00:00Z","appliedAtMs":9223372036854775807}`,
		"policy.number":      `"policy":{"epoch":1,"number":-1}`, "denied.names": `"denied":{"names":["\u0000"],"serials":[]}`, "denied.serials": `"denied":{"names":[],"serials":["\n"]}`,
	} {
		body := `{"instance":"i1",` + text + `}`
		if field == "instance" {
			body = `{` + text + `}`
		}
		h.refusedReport(receiver, body, field)
	}
	// The edge of what is allowed is read by everybody.
	edge := good()
	late := time.UnixMilli(221_845_392_000_000)
	edge.ClockOffsetMs, edge.Senders[0].LastAcceptedAt, edge.Senders[0].LastAcceptedAtMs = 100*365*24*3600*1000, &late, late.UnixMilli()
	edge.Senders[0].FirstRefusedAtMs, edge.Policy.AppliedAtMs = late.UnixMilli(), late.UnixMilli()
	receipt := admin1[controlapi.Receipt](h, http.MethodPost, "/operators/op-eu/senders/c1/revoke", operators.RevokeRequest{Reason: operators.RevokeHold})
	edge.Policy.Version = controlapi.Version{Epoch: 1, Number: receipt.Number}
	require.Equal(t, http.StatusNoContent, h.report(receiver, edge).StatusCode)
	for _, path := range []string{"/senders", "/operators/op-eu/senders", "/operators/op-eu/instances", "/summary", "/operators", "/receipts/" + receipt.ReceiptID} {
		admin1[json.RawMessage](h, http.MethodGet, path, nil)
	}
}

func (h *harness) refusedReport(receiver *holder, body, field string) {
	h.t.Helper()
	p := refused(h.t, h.send(h.proven(receiver, http.MethodPost, controlapi.RoutePolicyReport, "", []byte(body))), controlapi.ReasonValidationFailed)
	require.Len(h.t, p.Errors, 1, fmt.Sprint(p.Errors))
	assert.Equal(h.t, field, p.Errors[0].Field)
}
