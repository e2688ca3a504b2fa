// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package holder

import (
	"context"
	"encoding/hex"
	"strings"

	"github.com/ikhnos/continuum/internal/controlapi"
)

// TokenIsNew reports whether there is a token that the pair did not come by. One
// that was refused over the pair is not new any more.
func (h *Holder) TokenIsNew() bool {
	have := h.current()
	if have == nil || h.set.Token == nil {
		return false
	}
	token, _, err := h.token()
	if err != nil {
		return false
	}
	hash := tokenHash(token)
	return hash != have.generation.Token && hash != h.oldToken && hash != h.deadToken
}

// Reenroll spends a new token for a pair in the place of a good one, whose key
// was to be replaced or whose leaf was revoked. When that fails the standing is
// what it was. The error is always a *Failure.
func (h *Holder) Reenroll(ctx context.Context) (Result, error) {
	hash := h.tokenHash()
	result, failure := h.attempt(ctx, OperationEnroll)
	if failure == nil {
		h.clearFailure()
		return result, nil
	}
	if failure.Person {
		h.oldToken = hash
	}
	return Result{Operation: failure.Operation, Outcome: failure.Outcome}, failure
}

// expectToken takes the token that is there for the one that the pair came by,
// when the pair does not say.
func (h *Holder) expectToken() {
	if have := h.current(); have != nil && have.generation.Token == "" {
		h.oldToken = h.tokenHash()
	}
}

// tokenHash tells tokens apart; white space around one does not count.
func tokenHash(token string) string {
	return hex.EncodeToString(controlapi.HashSecret(strings.TrimSpace(token)))
}
