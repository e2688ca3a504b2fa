// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package holder

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/testpki"
	"github.com/ikhnos/continuum/internal/testpki/testserver"
)

// enrolled is a holder with a good pair.
func enrolled(t *testing.T, server *testserver.Server) *Holder {
	h := New(settings(t, server, "c1"))
	_, err := h.Attempt(t.Context())
	require.NoError(t, err)
	return h
}

func (h *Holder) useToken(token string) {
	h.set.Token = func() (string, error) { return " " + token + "\n", nil }
}

// Contract, section 4: `restore` and `rekey` answer with a token. It is spent once
// over the good pair, which remembers it over renewals and restarts.
func TestNewTokenOverAGoodPair(t *testing.T) {
	server := testserver.New(t)
	h := enrolled(t, server)
	require.False(t, h.TokenIsNew(), "the pair came by it")
	first := h.Status()
	fresh := server.Token("c1")
	h.useToken(fresh)
	require.True(t, h.TokenIsNew())

	result, err := h.Reenroll(t.Context())
	require.NoError(t, err)
	require.Equal(t, Result{OperationEnroll, OutcomeIssued}, result)
	require.NotEqual(t, first.Serial, h.Status().Serial)
	require.Equal(t, first.CA, h.Status().CA)
	require.Nil(t, server.Entries()[1].Parent, "a rekey is no renewal")
	require.False(t, h.TokenIsNew())

	_, err = h.Attempt(t.Context())
	require.NoError(t, err)
	again := New(h.set)
	require.NoError(t, again.Load(t.Context()))
	require.False(t, again.TokenIsNew())
}

// A token that cannot be used leaves certificate and standing as they were, and
// is not tried again; renewals go on.
func TestUselessTokenOverAGoodPair(t *testing.T) {
	foreign := testpki.NewCA(t, "op-other")
	for name, tc := range map[string]struct {
		token  func(*testserver.Server) string
		reason string
		calls  int
	}{
		"unknown": {
			func(s *testserver.Server) string {
				return controlapi.NewSecret(controlapi.SecretEnrollment, s.CA.SPKIHash())
			},
			string(controlapi.ReasonTokenUnknown), 1,
		},
		"of another sender": {func(s *testserver.Server) string { return s.Token("c2") }, ReasonLeafRejected, 1},
		"of another CA, so it is not spent": {
			func(*testserver.Server) string {
				return controlapi.NewSecret(controlapi.SecretEnrollment, foreign.SPKIHash())
			},
			ReasonCAChanged, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := testserver.New(t)
			h := enrolled(t, server)
			before, calls := h.Status(), len(server.Calls())
			h.useToken(tc.token(server))
			_, err := h.Reenroll(t.Context())
			var failure *Failure
			require.ErrorAs(t, err, &failure)
			require.Equal(t, tc.reason, failure.Reason)
			require.Len(t, server.Calls(), calls+tc.calls)
			require.Equal(t, before, h.Status())
			require.False(t, h.TokenIsNew())

			if _, err = h.Attempt(t.Context()); tc.reason == ReasonLeafRejected {
				requireFailure(t, err, OutcomeRefused, string(controlapi.ReasonKeyInUse)) // the other sender's now
				_, err = h.Attempt(t.Context())
			}
			require.NoError(t, err)
			require.Equal(t, before.Name, h.Status().Name)
		})
	}
}
