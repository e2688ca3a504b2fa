// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package controlapi

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSecretRoundTrip(t *testing.T) {
	spki := bytes.Repeat([]byte{7}, 32)
	for kind, length := range map[SecretKind]int{SecretAdmin: 48, SecretHeartbeat: 48, SecretEnrollment: 70} {
		t.Run(string(kind), func(t *testing.T) {
			secret := NewSecret(kind, spki)
			assert.Len(t, secret, len(kind)+length) // base64url of 36 or 52 bytes, no padding
			canonical, prefix, err := ParseSecret(kind, " \n"+secret+"\r\n")
			require.NoError(t, err)
			assert.Equal(t, secret, canonical)
			if kind == SecretEnrollment {
				assert.Equal(t, spki[:SPKIPrefixBytes], prefix)
			} else {
				assert.Nil(t, prefix)
			}
			assert.NotEqual(t, secret, NewSecret(kind, spki))
			assert.Len(t, HashSecret(canonical), 32)
		})
	}
}

func TestParseSecretRefuses(t *testing.T) {
	good := NewSecret(SecretAdmin, nil)
	for name, text := range map[string]string{
		"empty":               "",
		"another kind":        NewSecret(SecretHeartbeat, nil),
		"prefix alone":        string(SecretAdmin),
		"cut":                 good[:len(good)-1],
		"longer":              good + "A",
		"one character other": good[:len(good)-5] + flip(good[len(good)-5]) + good[len(good)-4:],
		"padding":             good + "=",
		"white space inside":  good[:20] + " " + good[20:],
		"standard alphabet":   strings.Replace(good[:10]+"-"+good[11:], "-", "+", 1),
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := ParseSecret(SecretAdmin, text)
			require.Error(t, err)
			if len(text) > 12 {
				assert.NotContains(t, err.Error(), text[8:12], "an error must not repeat the secret")
			}
		})
	}
}

func flip(c byte) string {
	if c == 'A' {
		return "B"
	}
	return "A"
}

// FuzzParseSecret: whatever is accepted is canonical, and accepted again.
func FuzzParseSecret(f *testing.F) {
	f.Add(NewSecret(SecretEnrollment, bytes.Repeat([]byte{1}, 32)))
	f.Add("iktok_")
	f.Fuzz(func(t *testing.T, text string) {
		canonical, spki, err := ParseSecret(SecretEnrollment, text)
		if err != nil {
			return
		}
		again, spki2, err := ParseSecret(SecretEnrollment, canonical)
		if err != nil || again != canonical || !bytes.Equal(spki, spki2) || len(spki) != SPKIPrefixBytes {
			t.Fatalf("%q is not stable", text)
		}
	})
}

// TestReasonsAreClosed holds the list of contract section 9 (trap-14): every reason, its
// status, and which may be tried again.
func TestReasonsAreClosed(t *testing.T) {
	want := map[Reason]int{
		"request_malformed": 400, "validation_failed": 422, "destination_not_allowed": 422, "body_too_large": 413,
		"media_type_unsupported": 415, "method_not_allowed": 405, "not_found": 404, "admin_unauthenticated": 401,
		"forbidden": 403, "cross_site_refused": 403, "name_taken": 409, "in_use": 409, "state_conflict": 409, "managed": 409,
		"cluster_not_approved": 403, "token_unknown": 401, "token_expired": 401, "token_revoked": 401, "token_spent": 401,
		"csr_invalid": 422, "key_unsupported": 422, "key_in_use": 409, "proof_invalid": 401, "clock_skew": 401,
		"proof_replayed": 401, "leaf_unknown": 401, "leaf_not_in_ledger": 403, "leaf_ended": 403, "leaf_revoked": 403,
		"sender_held": 403, "sender_revoked": 403, "operator_revoked": 403, "role_wrong": 403, "ca_ended": 409,
		"too_many_certificates": 429, "rate_limited": 429, "ledger_rollback": 409, "heartbeat_unauthorized": 401,
		"unavailable": 503, "internal": 500,
	}
	retryable := map[Reason]bool{
		"clock_skew": true, "proof_replayed": true, "sender_held": true, "too_many_certificates": true,
		"rate_limited": true, "ledger_rollback": true, "unavailable": true, "internal": true,
	}
	got := reasons
	assert.Len(t, got, len(want))
	for reason, status := range want {
		info, ok := got[reason]
		if assert.True(t, ok, reason) {
			assert.Equal(t, status, info.Status, reason)
			assert.Equal(t, retryable[reason], info.Retryable, reason)
			assert.NotEmpty(t, info.Title, reason)
			assert.NotEmpty(t, info.Remedy, reason)
			assert.True(t, strings.HasSuffix(info.Detail, "."), "%s: why it was refused is a sentence", reason)
			assert.NotContains(t, info.Detail, info.Title, "%s: the detail says more than the title", reason)
		}
	}
	assert.Equal(t, http.StatusInternalServerError, Reason("not on the list").Info().Status)
}

func TestProblemOnTheWire(t *testing.T) {
	p := NewProblem(ReasonClockSkew, "")
	p.RequestID = "r1"
	text, err := json.Marshal(p)
	require.NoError(t, err)
	assert.JSONEq(t, `{"type":"/help/errors/clock_skew","title":"The clocks differ too much","status":401,
		"detail":"The clocks differ too much","reason":"clock_skew","retryable":true,
		"remedy":"Sign again by serverTime, and correct the clock.","requestId":"r1"}`, string(text))
	assert.Equal(t, "The clocks differ too much (reason: clock_skew)", p.Error())
}

func TestInvalidNamesTheFields(t *testing.T) {
	p := Invalid(FieldError{"id", "must be short"}, FieldError{"id", "must be small"}, FieldError{"name", "is needed"})
	assert.Equal(t, ReasonValidationFailed, p.Reason)
	assert.Contains(t, p.Detail, "id, name.")
	assert.Len(t, p.Errors, 3)
}

func TestVersionOrder(t *testing.T) {
	assert.True(t, Version{1, 9}.Less(Version{2, 1}))
	assert.True(t, Version{1, 1}.Less(Version{1, 2}))
	assert.False(t, Version{1, 2}.Less(Version{1, 2}))
}

func TestSeconds(t *testing.T) {
	local := time.Date(2026, 1, 2, 3, 4, 5, 999, time.FixedZone("x", 3600))
	assert.Equal(t, time.Date(2026, 1, 2, 2, 4, 5, 0, time.UTC), Seconds(local))
}

// Contract, section 9: the list of reasons is closed, and every one is explained.
func TestExplanations(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range Explanations() {
		assert.False(t, seen[e.Reason], "%s stands twice", e.Reason)
		seen[e.Reason] = true
		for _, text := range []string{e.Meaning, e.From, e.Data, e.Remedy, e.Counted} {
			assert.NotEmpty(t, text, e.Reason)
		}
	}
	want := strings.Fields(`certificate_not_verified certificate_ended policy_not_loaded policy_stale sender_not_yet_known
		no_identity timeout certificate_revoked sender_revoked sender_held sender_unknown operator_revoked name_ambiguous
		identity_mismatch usage_wrong identity_conflict origin_not_vouched use_middlewares ca_changed pin_mismatch
		policy_signature policy_regressed leaf_rejected secret_conflict server_unreachable`)
	for reason := range reasons {
		want = append(want, string(reason))
	}
	for _, reason := range want {
		assert.True(t, seen[reason], reason)
	}
}
