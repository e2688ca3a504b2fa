// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/internal/controlapi"
)

func TestSignIn(t *testing.T) {
	b := open(t)
	for _, path := range []string{"/", "/operators", "/operators/op-eu", "/clusters", "/certificates", "/audit", "/nothing"} {
		response, _ := b.get(path)
		require.Equal(t, http.StatusSeeOther, response.StatusCode, path)
		require.Equal(t, "/login", response.Header.Get("Location"), path)
	}
	require.Contains(t, b.page("/login"), "ikhnos admin-token show-initial")

	response, _ := b.post("/login", url.Values{"token": {" " + b.Secret + "\n"}}, nil)
	require.Equal(t, http.StatusSeeOther, response.StatusCode)
	cookies := response.Cookies()
	require.Len(t, cookies, 1)
	c := cookies[0]
	require.True(t, c.Secure && c.HttpOnly)
	require.Equal(t, http.SameSiteStrictMode, c.SameSite)
	require.Equal(t, "/", c.Path)
	require.Empty(t, c.Domain)
	require.True(t, strings.HasPrefix(c.Name, "__Host-"))
	require.NotContains(t, c.Value, "ikadm_")

	require.Contains(t, words(b.page("/")), "initial (server)")
	response, _ = b.get("/login")
	require.Equal(t, "/", response.Header.Get("Location"), "whoever is signed in need not sign in again")
}

func TestWrongToken(t *testing.T) {
	var failures int
	b := open(t, func(c *Config) {
		c.Failed = func(*http.Request) time.Duration {
			if failures++; failures > 2 {
				return 1500 * time.Millisecond
			}
			return 0
		}
	})
	secret := controlapi.NewSecret(controlapi.SecretAdmin, nil)
	for _, token := range []string{secret, "<script>"} {
		response, body := b.post("/login", url.Values{"token": {token}}, nil)
		require.Equal(t, http.StatusUnauthorized, response.StatusCode)
		require.Contains(t, body, "This token is not known or has ended.")
		require.NotContains(t, body, token)
		require.Empty(t, response.Cookies())
	}
	response, _ := b.post("/login", url.Values{"token": {""}}, nil)
	require.Equal(t, http.StatusTooManyRequests, response.StatusCode)
	require.Equal(t, "2", response.Header.Get("Retry-After"))
	b.signIn() // a right token is never throttled
}

func TestSignOut(t *testing.T) {
	b := signedIn(t)
	_, csrf, _ := strings.Cut(b.page("/"), `name="csrf" value="`)
	csrf, _, _ = strings.Cut(csrf, `"`)
	require.NotEmpty(t, csrf)

	for _, form := range []url.Values{nil, {"csrf": {"guess"}}} {
		response, body := b.post("/logout", form, nil)
		require.Equal(t, http.StatusForbidden, response.StatusCode)
		require.Contains(t, body, "cross_site_refused")
	}
	b.page("/")

	session := b.client.Jar.Cookies(mustParse(t, b.server.URL))[0]
	response, _ := b.post("/logout", url.Values{"csrf": {csrf}}, nil)
	require.Equal(t, "/login", response.Header.Get("Location"))
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	r.AddCookie(session)
	_, err := Session(b.Operators)(r)
	requireReason(t, controlapi.ReasonAdminUnauthenticated, err) // ended at the server too
	response, _ = b.get("/")
	require.Equal(t, "/login", response.Header.Get("Location"))
	response, _ = b.post("/logout", nil, nil)
	require.Equal(t, "/login", response.Header.Get("Location"), "twice does no harm")
}

func TestOtherSitesAreRefused(t *testing.T) {
	b := open(t)
	for name, header := range map[string]http.Header{
		"Sec-Fetch-Site cross-site": {"Sec-Fetch-Site": {"cross-site"}},
		"Sec-Fetch-Site same-site":  {"Sec-Fetch-Site": {"same-site"}},
		"Origin":                    {"Origin": {"https://evil.example.com"}},
		"opaque Origin":             {"Origin": {"null"}},
	} {
		t.Run(name, func(t *testing.T) {
			response, body := b.post("/login", url.Values{"token": {b.Secret}}, header)
			require.Equal(t, http.StatusForbidden, response.StatusCode)
			require.Contains(t, body, "cross_site_refused")
			require.Empty(t, response.Cookies())
		})
	}
	response, _ := b.post("/login", url.Values{"token": {b.Secret}}, http.Header{"Origin": {b.server.URL}, "Sec-Fetch-Site": {"same-origin"}})
	require.Equal(t, http.StatusSeeOther, response.StatusCode)
}

// The API takes a session in place of an admin token.
func TestSessionForTheAPI(t *testing.T) {
	b := signedIn(t)
	session := Session(b.Operators)
	request := func(method, origin string) *http.Request {
		r := httptest.NewRequest(method, "https://ikhnos.example.com/api/v1/orgs/default/operators", http.NoBody)
		for _, c := range b.client.Jar.Cookies(mustParse(t, b.server.URL)) {
			r.AddCookie(c)
		}
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		return r
	}
	actor, err := session(request(http.MethodGet, ""))
	require.NoError(t, err)
	require.Equal(t, b.Actor, actor)
	_, err = session(request(http.MethodPost, "https://ikhnos.example.com"))
	require.NoError(t, err)
	_, err = session(request(http.MethodPost, "https://evil.example.com"))
	requireReason(t, controlapi.ReasonCrossSiteRefused, err)
	_, err = session(httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	requireReason(t, controlapi.ReasonAdminUnauthenticated, err)

	b.Clock.Advance(24 * time.Hour)
	_, err = session(request(http.MethodGet, ""))
	requireReason(t, controlapi.ReasonAdminUnauthenticated, err)
}

func requireReason(t *testing.T, want controlapi.Reason, err error) {
	t.Helper()
	require.True(t, isReason(err, want), "%v", err)
}

func mustParse(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	require.NoError(t, err)
	return u
}
