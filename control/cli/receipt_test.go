// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/internal/controlapi"
)

// receiptAt is a receipt of two instances, committed at 12:03:05.120.
func receiptAt(states ...controlapi.ReceiptState) *controlapi.Receipt {
	committed := time.Date(2026, 11, 30, 12, 3, 5, 120e6, time.UTC)
	ms := committed.UnixMilli()
	r := &controlapi.Receipt{
		ReceiptID: "rcp-41", CommittedAt: controlapi.Seconds(committed), CommittedAtMs: ms, Number: 7,
		Instances: []controlapi.ReceiptInstance{},
	}
	instances := []controlapi.ReceiptInstance{
		{Operator: "op-eu", Instance: "9f1c", AppliedAtMs: ms + 180, LastAcceptedAtMs: ms - 400, FirstRefusedAtMs: ms + 210},
		{Operator: "op-eu", Instance: "77ab", AppliedAtMs: ms + 220, LastAcceptedAtMs: ms - 20},
	}
	for i, state := range states {
		instances[i].State = state
		r.Instances = append(r.Instances, instances[i])
	}
	return r
}

func TestSenderRevoke(t *testing.T) {
	confirmed, pending, away := controlapi.ReceiptConfirmed, controlapi.ReceiptPending, controlapi.ReceiptUnreachable
	tests := map[string]struct {
		receipt *controlapi.Receipt
		code    int
	}{
		"confirmed":   {receiptAt(confirmed, confirmed), exitDone},
		"pending":     {receiptAt(confirmed, pending), exitNotConfirmed},
		"unreachable": {receiptAt(away, confirmed), exitNotConfirmed},
		"nobody":      {receiptAt(), exitNotConfirmed},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFakeServer(t, map[string]any{"POST /api/v1/orgs/default/operators/op-eu/senders/c7/revoke": test.receipt})
			got := newMachine(t, f).run("sender", "revoke", "c7", "--operator", "op-eu", "--note", "laptop stolen")
			assert.Equal(t, test.code, got.code)
			assert.Empty(t, got.stderr, "the receipt says it all")
			golden(t, "revoke-"+name+".golden.txt", got.stdout)
			assert.Equal(t, []string{"GET /api/v1/orgs/default/operators/op-eu/senders/c7",
				`POST /api/v1/orgs/default/operators/op-eu/senders/c7/revoke?wait=10 ` +
					`{"reason":"compromised","note":"laptop stolen"}`}, f.requests)
		})
	}
}

func TestHold(t *testing.T) {
	f := newFakeServer(t, map[string]any{
		"POST /api/v1/orgs/default/operators/op-eu/senders/c7/revoke": receiptAt(controlapi.ReceiptConfirmed),
	})
	got := newMachine(t, f).ok("sender", "revoke", "c7", "--operator", "op-eu", "--reason", "hold", "--wait", "1500ms")
	assert.Contains(t, got, "held op-eu-export-c7, committed 12:03:05.120Z\n")
	assert.Equal(t, []string{"GET /api/v1/orgs/default/operators/op-eu/senders/c7",
		`POST /api/v1/orgs/default/operators/op-eu/senders/c7/revoke?wait=2 {"reason":"hold"}`}, f.requests)
}

// A repetition answers the receipt of the first time, and says so.
func TestRevokeAgain(t *testing.T) {
	receipt := receiptAt(controlapi.ReceiptConfirmed)
	f := newFakeServer(t, map[string]any{
		"GET /api/v1/orgs/default/operators/op-eu/senders/c7":         map[string]any{"state": "revoked", "receiptId": receipt.ReceiptID},
		"POST /api/v1/orgs/default/operators/op-eu/senders/c7/revoke": receipt,
	})
	got := newMachine(t, f).ok("sender", "revoke", "c7", "--operator", "op-eu")
	assert.True(t, strings.HasPrefix(got, "op-eu-export-c7 was already cut off, committed 12:03:05.120Z\n"), got)
}

func TestReceiptGetPrintsTheDocumentOfTheAPI(t *testing.T) {
	receipt := receiptAt(controlapi.ReceiptConfirmed, controlapi.ReceiptPending)
	f := newFakeServer(t, map[string]any{"GET /api/v1/orgs/default/receipts/rcp-41": receipt})
	got := newMachine(t, f).run("receipt", "get", "rcp-41", "-o", "json")
	assert.Equal(t, exitNotConfirmed, got.code)
	want, err := json.Marshal(receipt)
	require.NoError(t, err)
	assert.JSONEq(t, string(want), got.stdout)

	got = newMachine(t, f).run("receipt", "get", "rcp-41", "-o", "yaml")
	assert.Contains(t, got.stdout, "receiptId: rcp-41\n")
}

func TestOperatorRevoke(t *testing.T) {
	removal := map[string]any{
		"receiptId": "rcp-9", "committedAt": "2026-11-30T12:03:05Z", "number": 9, "uninstall": "helm uninstall op-eu -n continuum-system",
		"instances": []any{map[string]any{"operator": "op-eu", "instance": "a", "state": "confirmed", "appliedAt": "2026-11-30T12:03:06Z"}},
	}
	f := newFakeServer(t, map[string]any{
		"POST /api/v1/orgs/default/operators/op-eu/revoke": removal,
		"DELETE /api/v1/orgs/default/operators/op-eu":      removal,
	})
	m := newMachine(t, f)
	got := m.run("operator", "revoke", "op-eu", "--force", "--wait", "0s", "--yes")
	assert.Equal(t, exitDone, got.code, got.stderr)
	golden(t, "operator-revoke.golden.txt", got.stdout)
	assert.Equal(t, []string{"POST /api/v1/orgs/default/operators/op-eu/revoke?force=true {}"}, f.requests)

	got = m.run("operator", "delete", "op-eu", "--confirm", "op-eu")
	assert.Equal(t, exitDone, got.code, got.stderr)
	assert.Contains(t, got.stdout, "deleted op-eu, committed 12:03:05.000Z\n")
}

func TestAPersonConfirmsByTheID(t *testing.T) {
	f := newFakeServer(t, map[string]any{"POST /api/v1/orgs/default/clusters/c7/revoke": receiptAt(controlapi.ReceiptConfirmed)})
	m := newMachine(t, f)
	m.env.inTerminal = true
	for _, typed := range []string{"", "yes\n", "c8\n"} {
		m.stdin = typed
		got := m.run("cluster", "revoke", "c7")
		assert.Equal(t, exitUsage, got.code)
		assert.Contains(t, got.stderr, "Type c7 to go on: error: not confirmed: nothing was done\n"+
			"  why   what was typed is not c7\n  do    repeat it and type c7\n")
	}
	assert.Empty(t, f.requests)
	m.stdin = "c7\n"
	assert.Contains(t, m.ok("cluster", "revoke", "c7"), "cut off c7 everywhere")
	m.stdin = ""
	m.ok("cluster", "revoke", "c7", "--yes")
}
