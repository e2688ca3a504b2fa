// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledgertest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/audit"
	"github.com/ikhnos/continuum/control/ledger"
)

const day = 24 * time.Hour

// PK-14, PK-17, LG-1.
func testEnroll(t *testing.T, f *Fixture) {
	out, err := f.Enroll(f.Token("op-a", ledger.RoleSender, "c1"), "k1")
	require.NoError(t, err)
	assert.False(t, out.Repeated)
	assert.NotEmpty(t, out.CACert)
	assert.Equal(t, "sealed op-a", string(out.CAKey))
	e := out.Entry
	assert.Equal(t, "op-a-export-c1", e.Holder)
	assert.Equal(t, ledger.KindCluster, e.Kind)
	assert.Equal(t, ledger.RoleSender, e.Role)
	assert.Equal(t, "010203", e.Issuer)
	assert.Equal(t, Key("k1"), e.SPKI)
	assert.Equal(t, "ann", e.RequestedBy)
	assert.Empty(t, e.Parent)
	assert.Equal(t, Epoch, e.IssuedAt)
	assert.Equal(t, Epoch.Add(-10*time.Minute), e.NotBefore)
	assert.Equal(t, Epoch.Add(30*day), e.NotAfter)
	assert.False(t, e.RenewAfter.Before(Epoch.Add(10*day)), "renews with 20 days left")
	assert.True(t, e.RenewAfter.Before(Epoch.Add(11*day)))
	assert.Equal(t, e.RenewAfter.Add(2*day), e.RenewBy)
	assert.Regexp(t, `^([0-9a-f]{2}){10,20}$`, e.Serial)
	assert.Equal(t, e, f.Entry("op-a", e.Serial))
	assert.Equal(t, 1, f.Audited(audit.OperatorCertificateIssued))

	r := f.MustEnroll("op-a", ledger.RoleReceiver, "op-a", "k2")
	assert.Equal(t, "op-a", r.Holder)
	assert.Equal(t, ledger.KindOperator, r.Kind)
	assert.Equal(t, ledger.RoleReceiver, r.Role)

	assert.Zero(t, f.Audited(audit.OperatorClientCertReissued))
	newer := f.MustEnroll("op-a", ledger.RoleSender, "c1", "k3")
	assert.Equal(t, 1, f.Audited(audit.OperatorClientCertReissued), "IS-10")
	assert.Equal(t, ledger.StateSuperseded, f.Entry("op-a", e.Serial).State)
	assert.Equal(t, ledger.StateValid, f.Entry("op-a", newer.Serial).State)
	assert.Equal(t, ledger.StateValid, f.Entry("op-a", r.Serial).State, "another role")
	_, err = f.Renew(e, "k4")
	require.NoError(t, err, "a superseded leaf stays good")
}

func testEnrollRefusals(t *testing.T, f *Fixture) {
	for _, test := range []struct {
		name, reason string
		before       func(token []byte)
	}{
		{"expired", ledger.ReasonTokenExpired, func([]byte) { f.Clock.Advance(time.Hour) }},
		{"revoked", ledger.ReasonTokenRevoked, func(token []byte) {
			f.Exec(`UPDATE enrollment_tokens SET state = 'revoked' WHERE secret_hash = $1`, token)
		}},
		{"of an older epoch", ledger.ReasonTokenRevoked, func(token []byte) {
			f.Exec(`UPDATE enrollment_tokens SET epoch = 0 WHERE secret_hash = $1`, token)
		}},
		{"held", ledger.ReasonSenderHeld, func([]byte) { f.Exec(`UPDATE senders SET state = 'held' WHERE holder_id = 'c1'`) }},
		{"sender revoked", ledger.ReasonSenderRevoked, func([]byte) { f.Exec(`UPDATE senders SET state = 'revoked' WHERE holder_id = 'c1'`) }},
		{"sender removed", ledger.ReasonSenderRevoked, func([]byte) { f.Exec(`UPDATE senders SET state = 'allowed', removed_at = 1 WHERE holder_id = 'c1'`) }},
		{"cluster", ledger.ReasonClusterNotApproved, func([]byte) {
			f.Exec(`UPDATE senders SET removed_at = NULL WHERE holder_id = 'c1'`)
			f.Exec(`UPDATE clusters SET state = 'pending' WHERE id = 'c1'`)
		}},
		{"operator", ledger.ReasonOperatorRevoked, func([]byte) { f.Exec(`UPDATE operators SET state = 'revoked' WHERE id = 'op-a'`) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			token := f.Token("op-a", ledger.RoleSender, "c1")
			test.before(token)
			_, err := f.Enroll(token, test.name)
			refused(t, test.reason, err)
		})
	}
	_, err := f.Enroll([]byte("nobody knows me"), "k")
	refused(t, ledger.ReasonTokenUnknown, err)
	assert.Zero(t, f.Count("op-a"))

	// A refused enrolment spends no token.
	f.Exec(`UPDATE operators SET state = 'active' WHERE id = 'op-a'`)
	token := f.Token("op-a", ledger.RoleSender, "c1")
	_, err = f.Enroll(token, "k")
	refused(t, ledger.ReasonClusterNotApproved, err)
	f.Exec(`UPDATE clusters SET state = 'approved' WHERE id = 'c1'`)
	_, err = f.Enroll(token, "another key")
	require.NoError(t, err)

	_, err = f.Store.Issue(context.Background(), ledger.IssueRequest{SPKI: Key("k")})
	require.Error(t, err, "neither token nor proof")
}

// trap-3 in small: the answer is lost, the request comes again and again.
func testEnrollRepeated(t *testing.T, f *Fixture) {
	token := f.Token("op-a", ledger.RoleSender, "c1")
	first, err := f.Enroll(token, "k1")
	require.NoError(t, err)
	for range 20 {
		f.Clock.Advance(time.Hour) // beyond the token's
		again, err := f.Enroll(token, "k1")
		require.NoError(t, err)
		assert.True(t, again.Repeated)
		assert.Equal(t, first.Entry, again.Entry)
	}
	assert.Equal(t, 1, f.Count("op-a"))
	assert.Equal(t, 1, f.Audited(audit.OperatorCertificateIssued))

	_, err = f.Enroll(token, "k2")
	refused(t, ledger.ReasonTokenSpent, err)
	assert.Equal(t, 1, f.Audited(audit.EnrollmentTokenReused))

	// Another token, the same key: the same leaf, and the token is spent for it.
	other := f.Token("op-a", ledger.RoleSender, "c1")
	again, err := f.Enroll(other, "k1")
	require.NoError(t, err)
	assert.Equal(t, first.Entry.Serial, again.Entry.Serial)
	_, err = f.Enroll(other, "k3")
	refused(t, ledger.ReasonTokenSpent, err)

	f.Exec(`UPDATE senders SET state = 'held' WHERE holder_id = 'c1'`)
	_, err = f.Enroll(token, "k1")
	refused(t, ledger.ReasonSenderHeld, err)
	f.Exec(`UPDATE senders SET state = 'allowed' WHERE holder_id = 'c1'`)
	f.Update(func(tx *ledger.Tx) error {
		_, err := tx.RevokeLeaf("op-a", first.Entry.Serial, "compromised")
		return err
	})
	_, err = f.Enroll(token, "k1")
	refused(t, ledger.ReasonLeafRevoked, err)

	ended := f.Token("op-a", ledger.RoleSender, "c2")
	_, err = f.Enroll(ended, "k4")
	require.NoError(t, err)
	f.Clock.Advance(30 * day)
	_, err = f.Enroll(ended, "k4")
	require.NoError(t, err, "good in its last second")
	f.Clock.Advance(time.Second)
	_, err = f.Enroll(ended, "k4")
	refused(t, ledger.ReasonLeafEnded, err)
}

// trap-4: one token, many keys at once, one winner. CONTINUUM_SOAK makes it a
// thousand rounds.
func testTokenRace(t *testing.T, f *Fixture) {
	const users = 50
	rounds := 5
	if os.Getenv("CONTINUUM_SOAK") != "" {
		rounds = 1000
	}
	for round := range rounds {
		holder := fmt.Sprint("r", round)
		f.Sender("op-a", holder)
		token := f.Token("op-a", ledger.RoleSender, holder)
		var winners atomic.Int32
		var wg sync.WaitGroup
		for user := range users {
			wg.Go(func() {
				if _, err := f.Enroll(token, fmt.Sprint(round, "/", user)); err == nil {
					winners.Add(1)
				} else {
					var r *ledger.Refusal
					if assert.ErrorAs(t, err, &r) {
						assert.Equal(t, ledger.ReasonTokenSpent, r.Reason)
					}
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 1, winners.Load())
		require.Equal(t, round+1, f.Count("op-a"))
	}
	assert.Equal(t, rounds*(users-1), f.Audited(audit.EnrollmentTokenReused))
}

// PK-18: one key, two operators at once, one of them gets it.
func testKeyRace(t *testing.T, f *Fixture) {
	f.Operator("op-b", 365*day)
	f.Sender("op-b", "c1")
	for round := range 10 {
		var winners atomic.Int32
		var wg sync.WaitGroup
		for _, operator := range []string{"op-a", "op-b"} {
			token := f.Token(operator, ledger.RoleSender, "c1")
			wg.Go(func() {
				_, err := f.Enroll(token, fmt.Sprint("shared", round))
				if err == nil {
					winners.Add(1)
					return
				}
				var r *ledger.Refusal
				if assert.ErrorAs(t, err, &r) {
					assert.Equal(t, ledger.ReasonKeyInUse, r.Reason)
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 1, winners.Load())
	}
}

func testKeyInUse(t *testing.T, f *Fixture) {
	f.Operator("op-b", 365*day)
	f.Sender("op-b", "c1")
	c1 := f.MustEnroll("op-a", ledger.RoleSender, "c1", "k1")
	for _, where := range [][3]string{
		{"op-a", ledger.RoleSender, "c2"},     // another holder
		{"op-a", ledger.RoleReceiver, "op-a"}, // another role
		{"op-b", ledger.RoleSender, "c1"},     // another operator
	} {
		token := f.Token(where[0], where[1], where[2])
		_, err := f.Enroll(token, "k1")
		refused(t, ledger.ReasonKeyInUse, err)
		_, err = f.Enroll(token, fmt.Sprint("free", where))
		require.NoError(t, err, "the refusal spent no token")
	}
	_, err := f.Renew(c1, "k1")
	refused(t, ledger.ReasonKeyInUse, err)
	c2 := f.MustEnroll("op-a", ledger.RoleSender, "c2", "k2")
	_, err = f.Renew(c1, "k2")
	refused(t, ledger.ReasonKeyInUse, err)
	assert.Equal(t, ledger.StateValid, f.Entry("op-a", c2.Serial).State)
}

func testTwenty(t *testing.T, f *Fixture) {
	leaf := f.MustEnroll("op-a", ledger.RoleSender, "c1", "k0")
	for i := 1; i < 20; i++ {
		out, err := f.Renew(leaf, fmt.Sprint("k", i))
		require.NoError(t, err)
		leaf = out.Entry
	}
	_, err := f.Renew(leaf, "k20")
	refused(t, ledger.ReasonTooManyCertificates, err)
	_, err = f.Renew(leaf, "k7")
	require.NoError(t, err, "a repeat makes no new leaf")
	_, err = f.Enroll(f.Token("op-a", ledger.RoleSender, "c1"), "k21")
	require.NoError(t, err, "a token is not refused")
	f.Clock.Advance(30*day + time.Second)
	_, err = f.Enroll(f.Token("op-a", ledger.RoleSender, "c1"), "k22")
	require.NoError(t, err)
}

func testCAEnd(t *testing.T, f *Fixture) {
	f.Operator("op-short", 40*day)
	f.Sender("op-short", "c1")
	leaf := f.MustEnroll("op-short", ledger.RoleSender, "c1", "k1")
	assert.Equal(t, Epoch.Add(30*day), leaf.NotAfter)
	f.Clock.Advance(20 * day)
	out, err := f.Renew(leaf, "k2")
	require.NoError(t, err)
	assert.Equal(t, Epoch.Add(40*day), out.Entry.NotAfter, "capped")
	assert.False(t, out.Entry.RenewAfter.Before(f.Clock.Now().Add(10*day)), "once per half of what is left")
	f.Clock.Advance(20 * day)
	_, err = f.Enroll(f.Token("op-short", ledger.RoleSender, "c1"), "k3")
	refused(t, ledger.ReasonCAEnded, err)
}
