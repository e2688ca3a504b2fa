// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/ikhnos/continuum/control/liveness"
	"github.com/ikhnos/continuum/control/operators"
)

var everyPage = []string{"/", "/operators", "/clusters", "/certificates", "/audit", "/certificates?state=revoked", "/audit?object=op-eu"}

func TestFirstRun(t *testing.T) {
	b := signedIn(t)
	require.Contains(t, b.page("/"), "ikhnos operator create")
	require.Contains(t, words(b.page("/operators")), "No regional operator yet.")
	require.Contains(t, words(b.page("/clusters")), "No cluster yet")
	require.Contains(t, words(b.page("/certificates")), "No certificate here.")
	require.Contains(t, words(b.page("/audit")), "initial signed in with adm-") // never empty
}

func TestGoodFleet(t *testing.T) {
	b := signedIn(t)
	b.seed()
	home := words(b.page("/"))
	require.Contains(t, home, "Nothing needs you. Next certificate to renew: op-eu")
	require.Contains(t, home, "● Online 1")
	require.Contains(t, home, "● Active 1")
	require.Contains(t, home, "op-eu-export-c1 enrolled at op-eu.")
	require.Contains(t, home, "As of 2026-03-01 12:00:20 UTC")

	require.Contains(t, words(b.page("/operators")), "● Online EU West op-eu regional in-cluster only in 29 d in 29 d 0.1.0 20 s ago") // ST-2
	detail := b.page("/operators/op-eu")
	require.Contains(t, words(detail), "● Active c1 cluster 24 s ago logs the operator's address in 29 d")
	require.Contains(t, words(detail), "Certificates ● OK")
	require.Contains(t, words(detail), "It says 0.1.0, all components work, policy 1.7")
	require.Contains(t, detail, "<title>EU West · Ikhnos</title>")
	require.Contains(t, words(detail), "● Valid op-eu-export-c1 sender 20 s ago in 29 d")
	require.Contains(t, words(b.page("/clusters")), "● Approved c1 kubernetes env=prod 5m 20 s ago initial")
	require.Contains(t, words(b.page("/certificates")), "op-eu-export-c1")
}

func TestEachStateInWords(t *testing.T) {
	b := signedIn(t)
	b.seed()
	b.Pending("c9")
	b.Clock.Advance(10 * time.Minute)
	require.Contains(t, words(b.page("/")), "▲ Offline op-eu 10 min ago its one sender is not measured ikhnos operator get op-eu")
	require.Contains(t, words(b.page("/")), "◌ Waiting for approval 1 cluster")
	require.Contains(t, b.page("/"), "<title>Offline · Overview · Ikhnos</title>")
	require.Contains(t, words(b.page("/operators/op-eu")), "– Not measured c1")
	require.Contains(t, words(b.page("/clusters")), "1 waits for approval c9 , registered 10 min ago by initial : ikhnos cluster approve c9")

	b.Report("op-eu", b.Accepted("op-eu", "c1", 6*time.Minute))
	require.Contains(t, words(b.page("/operators/op-eu")), "▲ Silent c1")
	_, err := b.Operators.RevokeSender(t.Context(), b.Actor, "op-eu", "c1", operators.RevokeRequest{Reason: operators.RevokeRetired, Note: "laptop stolen"})
	require.NoError(t, err)
	require.Contains(t, words(b.page("/operators/op-eu")), "✕ Revoked c1")
	require.Contains(t, words(b.page("/")), "✕ Not confirmed")
	require.Contains(t, words(b.page("/audit")), "initial cut off op-eu-export-c1, reason: retired, note: laptop stolen.")
	require.Contains(t, words(b.page("/certificates?state=revoked")), "✕ Revoked op-eu-export-c1")

	b.Clock.Advance(21 * 24 * time.Hour)
	b.signIn()
	require.Contains(t, words(b.page("/operators")), "▲ Offline EU West op-eu regional in-cluster only in 8 d – ◷ Renewal failing 0.1.0 21 d ago") // ST-1
	b.Beat("op-eu")
	require.Contains(t, words(b.page("/operators")), "◷ Renewal failing EU West op-eu regional in-cluster only in 8 d – 0.1.0 now")
}

// A name is text, whatever it holds.
func TestNamesAreEscaped(t *testing.T) {
	b := signedIn(t)
	name := "<script>alert('1')</script>\"&"
	b.Operator("op-x", name)
	b.Operator("op-rtl", "\u05de\u05e8\u05db\u05d6 \u05de\u05d6\u05e8\u05d7")
	b.Operator("op-long", strings.Repeat("w", 60))
	for _, path := range append(everyPage, "/operators/op-x", "/operators/op-rtl", "/audit?actor=%3Cscript%3E", "/certificates?holder=%3Cscript%3E") {
		body := b.page(path)
		require.NotContains(t, body, "<script", path)
		require.NotContains(t, body, " style=", path)
		require.NotRegexp(t, `\son[a-z]+=`, body, path)
	}
	require.Contains(t, b.page("/operators/op-x"), "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;")
	require.Contains(t, b.page("/operators/op-rtl"), "<bdi>\u05de\u05e8\u05db\u05d6 \u05de\u05d6\u05e8\u05d7</bdi>")
}

func TestNothingThere(t *testing.T) {
	b := signedIn(t)
	for path, status := range map[string]int{
		"/nothing": http.StatusNotFound, "/operators/op-no": http.StatusNotFound, "/operators/%3Cscript%3E": http.StatusNotFound,
		"/certificates?state=odd": http.StatusBadRequest, "/certificates?cursor=x": http.StatusBadRequest,
		"/audit?cursor=x": http.StatusBadRequest, "/clusters?cursor=%21": http.StatusBadRequest,
	} {
		response, body := b.get(path)
		require.Equal(t, status, response.StatusCode, path)
		require.Contains(t, body, "/help/errors/", path)
		require.Contains(t, body, "Request req-1.", path)
		require.NotContains(t, body, "<script", path)
	}
}

// Another organisation's operator is not found, and nothing of it is listed.
func TestOtherOrganisation(t *testing.T) {
	b := open(t)
	b.seed()
	org, err := b.Operators.CreateOrg(t.Context(), b.Actor, operators.OrgRequest{ID: "other", Name: "Other"})
	require.NoError(t, err)
	b.Secret = org.AdminToken
	b.signIn()
	response, _ := b.get("/operators/op-eu")
	require.Equal(t, http.StatusNotFound, response.StatusCode)
	for _, path := range everyPage {
		require.NotContains(t, strings.ReplaceAll(b.page(path), "object=op-eu", ""), "op-eu", path)
	}
}

// 300 operators and 3,000 clusters stay within the budget of a page.
func TestLargeFleet(t *testing.T) {
	if testing.Short() {
		t.Skip("makes 300 CAs")
	}
	b := signedIn(t)
	for i := range 300 {
		b.Operator(fmt.Sprintf("op-%03d", i), fmt.Sprintf("Operator %03d", i))
	}
	for i := range 3000 {
		b.Pending(fmt.Sprintf("c%04d", i))
	}
	for _, path := range everyPage {
		body := b.page(path)
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, err := w.Write([]byte(body))
		require.NoError(t, err)
		require.NoError(t, w.Close())
		require.Less(t, packed.Len(), 250<<10, path)
	}
	require.Equal(t, 300, strings.Count(b.page("/operators"), `<th scope="row">`))
	_, next, _ := strings.Cut(b.page("/clusters"), `href="/clusters?cursor=`)
	cursor, _, _ := strings.Cut(next, `"`)
	require.Contains(t, b.page("/clusters?cursor="+cursor), "c0500")
}

// Every page parses, has one h1, labelled tables and a command line.
func TestPagesAreWellMade(t *testing.T) {
	b := signedIn(t)
	b.seed()
	for _, path := range append(everyPage, "/operators/op-eu", "/operators/op-eu?leaves=all") {
		body := b.page(path)
		_, err := html.Parse(strings.NewReader(body))
		require.NoError(t, err)
		require.Equal(t, 1, strings.Count(body, "<h1>"), path)
		require.Equal(t, strings.Count(body, "<table"), strings.Count(body, "<caption"), path)
		require.Contains(t, body, "The same at a command line", path)
		require.Contains(t, body, `aria-current="page"`, path)
	}
	response, css := b.get("/ui/style.css")
	require.Equal(t, "text/css; charset=utf-8", response.Header.Get("Content-Type"))
	for _, tone := range liveness.Tones {
		require.Contains(t, css, "."+string(tone)+" ")
	}
}
