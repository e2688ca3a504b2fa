// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// cutter lets the server do all its work and then cuts the connection, while it is
// told to.
type cutter struct {
	next http.Handler
	cut  atomic.Bool
	lost chan []byte // answers that nobody got
}

func (c *cutter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !c.cut.Load() || !strings.HasPrefix(r.URL.Path, "/api/v1/operator-certificates/") {
		c.next.ServeHTTP(w, r)
		return
	}
	answer := httptest.NewRecorder()
	c.next.ServeHTTP(answer, r)
	c.lost <- answer.Body.Bytes()
	panic(http.ErrAbortHandler)
}

// TestConnectionCutAfterTheCommit: trap-3: what was committed and not heard is
// answered again byte for byte, once the connection is back; a second leaf is never
// made.
func TestConnectionCutAfterTheCommit(t *testing.T) {
	h := newHarness(t)
	h.operator("op-eu", "c1")
	c := &cutter{next: h.http.Config.Handler, lost: make(chan []byte, 1)}
	h.serve(c)
	lose := func(req *http.Request) []byte {
		t.Helper()
		c.cut.Store(true)
		defer c.cut.Store(false)
		_, err := h.http.Client().Do(req)
		require.Error(t, err)
		return bytes.Clone(<-c.lost)
	}
	entries := func() int {
		return len(admin1[operators.List[map[string]any]](h, http.MethodGet, "/operators/op-eu/certificates", nil).Items)
	}

	token, key := h.mint("op-eu", "c1"), newKey(t)
	enrolment := func() *http.Request {
		return h.request(http.MethodPost, controlapi.RouteEnroll, "", controlapi.EnrollRequest{Token: token, CSR: csrOf(t, key)})
	}
	lost := lose(enrolment())
	assert.Equal(t, lost, lose(enrolment()), "and lost again")
	got := h.send(enrolment())
	require.Equal(t, http.StatusOK, got.StatusCode, "%s", got.body)
	assert.Equal(t, string(lost), string(got.body))
	assert.Equal(t, 1, entries())
	refused(t, h.enroll(token, newKey(t)), controlapi.ReasonTokenSpent)

	held, next := h.holding(got, key), newKey(t)
	body, err := json.Marshal(controlapi.RenewRequest{CSR: csrOf(t, next)})
	require.NoError(t, err)
	lost = lose(h.proven(held, http.MethodPost, controlapi.RouteRenew, "", body))
	got = h.renew(held, next)
	require.Equal(t, http.StatusOK, got.StatusCode, "%s", got.body)
	assert.Equal(t, string(lost), string(got.body))
	assert.Equal(t, 2, entries())

	// A revocation between the loss and the repeat wins.
	third := newKey(t)
	body, err = json.Marshal(controlapi.RenewRequest{CSR: csrOf(t, third)})
	require.NoError(t, err)
	lose(h.proven(held, http.MethodPost, controlapi.RouteRenew, "", body))
	admin1[controlapi.Receipt](h, http.MethodPost, "/operators/op-eu/senders/c1/revoke", operators.RevokeRequest{Reason: operators.RevokeCompromised})
	refused(t, h.renew(held, third), controlapi.ReasonLeafRevoked)
	refused(t, h.send(enrolment()), controlapi.ReasonLeafRevoked)
}
