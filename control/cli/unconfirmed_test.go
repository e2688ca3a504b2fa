// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A revocation that no known instance can confirm stays in the status until one
// has come and confirms it.
func TestARevocationThatNobodyConfirms(t *testing.T) {
	s := newRealServer(t)
	_, receiver := s.enroll(s.exec(exitDone, "operator", "create", "EU", "--id", "op-eu", "--role", "central"))
	for _, id := range []string{"c1", "c2"} {
		s.exec(exitDone, "cluster", "add", id, "--approve")
	}
	s.enroll(s.exec(exitDone, "sender", "connect", "c1", "--operator", "op-eu"))
	s.exec(exitDone, "sender", "connect", "c2", "--operator", "op-eu")

	s.exec(exitNotConfirmed, "sender", "revoke", "c2", "--operator", "op-eu", "--wait", "0s")
	s.exec(exitDone, "status") // c2 has no certificate that could be accepted
	revoked := s.exec(exitNotConfirmed, "sender", "revoke", "c1", "--operator", "op-eu", "--wait", "0s")
	assert.Contains(t, revoked, "not confirmed: no instance of the operator is known; receipt ")
	id := regexp.MustCompile(`receipt (\S+)`).FindStringSubmatch(revoked)[1]
	for range 2 {
		assert.Regexp(t, "✕ "+id+" not confirmed +since ..:..; the revocation of sender op-eu-export-c1 is not confirmed by "+
			"1 operator of which no instance has ever reported +ikhnos receipt get "+id, s.exec(exitFound, "status"))
	}
	assert.Contains(t, s.exec(exitNotConfirmed, "receipt", "get", id), "no instance of the operator is known")

	s.report(receiver, 1, "op-eu-export-c1")
	assert.Contains(t, s.exec(exitFound, "status"), "is not confirmed by 1 instance ")
	assert.Contains(t, s.exec(exitNotConfirmed, "receipt", "get", id), "op-eu / 9f1c")
	s.report(receiver, 1<<40, "op-eu-export-c1")
	assert.Contains(t, s.exec(exitDone, "receipt", "get", id), "confirmed by 1 of 1 instance")
	s.exec(exitDone, "status")
}
