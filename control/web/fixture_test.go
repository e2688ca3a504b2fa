// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// browser is a signed-out browser at the page of a fleet, over real HTTPS.
type browser struct {
	*fleet
	t      testing.TB
	server *httptest.Server
	client *http.Client
}

func open(t testing.TB, edit ...func(*Config)) *browser {
	t.Helper()
	f := newFleet(t)
	cfg := Config{
		Store: f.Store, Operators: f.Operators, Liveness: f.Tracker, Log: slog.New(slog.DiscardHandler),
		Caller: func(*http.Request) (string, string) { return "req-1", "192.0.2.1" },
	}
	for _, e := range edit {
		e(&cfg)
	}
	server := httptest.NewTLSServer(Handler(cfg))
	t.Cleanup(server.Close)
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	client := server.Client()
	client.Jar = jar
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	t.Cleanup(client.CloseIdleConnections)
	return &browser{fleet: f, t: t, server: server, client: client}
}

// signedIn is a browser whose user has signed in.
func signedIn(t testing.TB) *browser {
	t.Helper()
	b := open(t)
	b.signIn()
	return b
}

func (b *browser) signIn() {
	b.t.Helper()
	response, _ := b.post("/login", url.Values{"token": {b.Secret}}, nil)
	require.Equal(b.t, http.StatusSeeOther, response.StatusCode)
	require.Equal(b.t, "/", response.Header.Get("Location"))
}

func (b *browser) do(r *http.Request) (*http.Response, string) {
	b.t.Helper()
	response, err := b.client.Do(r)
	require.NoError(b.t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(b.t, err)
	require.NoError(b.t, response.Body.Close())
	require.Equal(b.t, policyHeader, response.Header.Get("Content-Security-Policy"))
	require.Equal(b.t, "nosniff", response.Header.Get("X-Content-Type-Options"))
	return response, string(body)
}

func (b *browser) get(path string) (*http.Response, string) {
	b.t.Helper()
	r, err := http.NewRequest(http.MethodGet, b.server.URL+path, http.NoBody)
	require.NoError(b.t, err)
	return b.do(r)
}

// page is the text of a page that is there.
func (b *browser) page(path string) string {
	b.t.Helper()
	response, body := b.get(path)
	require.Equal(b.t, http.StatusOK, response.StatusCode, "%s: %s", path, body)
	require.Equal(b.t, "text/html; charset=utf-8", response.Header.Get("Content-Type"))
	require.Equal(b.t, "no-store", response.Header.Get("Cache-Control"))
	return body
}

func (b *browser) post(path string, form url.Values, header http.Header) (*http.Response, string) {
	b.t.Helper()
	r, err := http.NewRequest(http.MethodPost, b.server.URL+path, strings.NewReader(form.Encode()))
	require.NoError(b.t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for name, values := range header {
		r.Header[name] = values
	}
	return b.do(r)
}

// seed is one operator with a sender in good standing, heard 20 s ago.
func (b *browser) seed() {
	b.t.Helper()
	b.Operator("op-eu", "EU West")
	b.Cluster("c1")
	b.Connect("op-eu", "c1")
	b.Enrol("op-eu", "")
	b.Enrol("op-eu", "c1")
	b.Beat("op-eu")
	b.Report("op-eu", b.Accepted("op-eu", "c1", 4*time.Second))
	b.Clock.Advance(20 * time.Second)
}

var (
	tags   = regexp.MustCompile(`<[^>]*>`)
	spaces = regexp.MustCompile(`\s+`)
)

// words are what a reader sees of a page.
func words(body string) string {
	return spaces.ReplaceAllString(tags.ReplaceAllString(body, " "), " ")
}
