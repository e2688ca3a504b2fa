// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/liveness"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// TestRefusedRenewal: a renewal that was refused is failing (contract, section 3;
// A-9) until the leaf has a successor.
func TestRefusedRenewal(t *testing.T) {
	h := newHarness(t)
	h.operator("op-eu", "c1")
	held := h.holder("op-eu", "c1")
	// Reports tell that the operator measures its senders.
	receiver := h.holder("op-eu", "")
	require.Equal(t, http.StatusNoContent, h.report(receiver, &controlapi.Report{Instance: "i1", StartedAt: h.clock.now()}).StatusCode)
	sender := func() liveness.SenderStatus {
		return admin1[liveness.SenderStatus](h, http.MethodGet, "/operators/op-eu/senders/c1", nil)
	}
	assert.Equal(t, liveness.StatusWaiting, sender().Status)

	refused(t, h.renew(held, held.key), controlapi.ReasonKeyInUse)
	assert.Equal(t, liveness.StatusRenewalFailing, sender().Status)
	assert.Equal(t, string(controlapi.ReasonKeyInUse), sender().RenewalRefused)
	assert.NotNil(t, sender().RenewalRefusedAt)
	operator := admin1[operators.Operator](h, http.MethodGet, "/operators/op-eu", nil)
	assert.Equal(t, operators.CertificateRenewalFailing, operator.Certificates.State)

	require.Equal(t, http.StatusOK, h.renew(held, newKey(t)).StatusCode)
	assert.Equal(t, liveness.StatusWaiting, sender().Status)
	assert.Empty(t, sender().RenewalRefused)
}
