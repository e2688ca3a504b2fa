// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledgertest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/ledger"
)

func (f *Fixture) states(operatorID string, serials ...string) (states []string) {
	f.tb.Helper()
	for _, s := range serials {
		states = append(states, f.Entry(operatorID, s).State)
	}
	return states
}

// family enrols c1 as a and renews: a to b, b to c, a to d.
func (f *Fixture) family() (a, b, c, d ledger.Entry) {
	f.tb.Helper()
	renew := func(e ledger.Entry, key string) ledger.Entry {
		out, err := f.Renew(e, key)
		require.NoError(f.tb, err)
		return out.Entry
	}
	a = f.MustEnroll("op-a", ledger.RoleSender, "c1", "a")
	b = renew(a, "b")
	c = renew(b, "c")
	d = renew(a, "d")
	return a, b, c, d
}

// trap-11: a thief who renewed first loses his leaves too.
func testRevokeHolder(t *testing.T, f *Fixture) {
	a, b, c, d := f.family()
	other := f.MustEnroll("op-a", ledger.RoleSender, "c2", "other")
	receiver := f.MustEnroll("op-a", ledger.RoleReceiver, "op-a", "receiver")
	var serials []string
	f.Update(func(tx *ledger.Tx) (err error) {
		serials, err = tx.RevokeHolder("op-a", a.Holder, ledger.RoleSender, "compromised")
		return err
	})
	assert.ElementsMatch(t, []string{a.Serial, b.Serial, c.Serial, d.Serial}, serials)
	assert.Equal(t, []string{"valid", "valid"}, f.states("op-a", other.Serial, receiver.Serial))
	for _, e := range []ledger.Entry{a, b, c, d} {
		_, err := f.Renew(e, "new "+e.Serial)
		refused(t, ledger.ReasonLeafRevoked, err)
	}
	e := f.Entry("op-a", c.Serial)
	assert.Equal(t, Epoch, *e.RevokedAt)
	assert.Equal(t, "compromised", e.RevokeReason)
	f.View(func(tx *ledger.Tx) error {
		revoked, err := tx.RevokedSerials("op-a")
		require.NoError(t, err)
		require.Len(t, revoked, 4)
		for _, r := range revoked {
			assert.Equal(t, ledger.Revoked{Serial: r.Serial, RevokedAt: Epoch, NotAfter: a.NotAfter, Reason: "compromised"}, r)
		}
		return nil
	})
	f.Update(func(tx *ledger.Tx) error {
		again, err := tx.RevokeHolder("op-a", a.Holder, ledger.RoleSender, "retired")
		assert.Empty(t, again, "revoked once")
		return err
	})
	f.Clock.Advance(31 * day)
	f.View(func(tx *ledger.Tx) error {
		revoked, err := tx.RevokedSerials("op-a")
		assert.Empty(t, revoked, "only leaves that have not ended")
		return err
	})
	assert.Equal(t, ledger.StateRevoked, f.Entry("op-a", a.Serial).State, "revoked stays revoked after the end")
}

func testRevokeLeaf(t *testing.T, f *Fixture) {
	a, b, c, d := f.family()
	revoke := func(serial string) (serials []string) {
		f.Update(func(tx *ledger.Tx) (err error) {
			serials, err = tx.RevokeLeaf("op-a", serial, "retired")
			return err
		})
		return serials
	}
	assert.Equal(t, []string{b.Serial, c.Serial}, revoke(b.Serial), "and what was renewed from it")
	assert.Equal(t, []string{"superseded", "revoked", "revoked", "valid"}, f.states("op-a", a.Serial, b.Serial, c.Serial, d.Serial))
	assert.Empty(t, revoke(b.Serial))
	assert.Equal(t, []string{a.Serial, d.Serial}, revoke(a.Serial))
	err := f.Store.Update(t.Context(), func(tx *ledger.Tx) error {
		_, err := tx.RevokeLeaf("op-a", "00", "retired")
		return err
	})
	require.ErrorIs(t, err, ledger.ErrNotFound)

	// Through an ancestor that has ended.
	old := f.MustEnroll("op-a", ledger.RoleSender, "c2", "old")
	f.Clock.Advance(20 * day)
	out, err := f.Renew(old, "young")
	require.NoError(t, err)
	f.Clock.Advance(20 * day)
	assert.Equal(t, []string{out.Entry.Serial}, revoke(old.Serial))
	assert.Equal(t, ledger.StateEnded, f.Entry("op-a", old.Serial).State)
}

func testRevokeOperator(t *testing.T, f *Fixture) {
	old := f.MustEnroll("op-a", ledger.RoleReceiver, "op-a", "old")
	f.Update(func(tx *ledger.Tx) error {
		_, err := tx.RevokeLeaf("op-a", old.Serial, "compromised")
		return err
	})
	receiver := f.MustEnroll("op-a", ledger.RoleReceiver, "op-a", "r")
	sender := f.MustEnroll("op-a", ledger.RoleSender, "c1", "s")
	check := func(e ledger.Entry, role string, after bool) (err error) {
		return f.Store.Update(t.Context(), func(tx *ledger.Tx) error {
			got, err := tx.CheckProof(*f.Proof(e), role, after)
			if err == nil {
				assert.Equal(t, e.Serial, got.Serial)
			}
			return err
		})
	}
	require.NoError(t, check(receiver, ledger.RoleReceiver, false))
	refused(t, ledger.ReasonRoleWrong, check(sender, ledger.RoleReceiver, false))
	refused(t, ledger.ReasonLeafRevoked, check(old, ledger.RoleReceiver, true))

	f.Clock.Advance(time.Minute)
	f.Update(func(tx *ledger.Tx) error {
		serials, err := tx.RevokeAll("op-a", "operator revoked")
		require.NoError(t, err)
		assert.ElementsMatch(t, []string{receiver.Serial, sender.Serial}, serials)
		require.NoError(t, tx.EraseCA("op-a"))
		_, err = tx.Exec(`UPDATE operators SET state = 'revoked', revoked_at = $1 WHERE id = 'op-a'`, tx.Now().Unix())
		return err
	})
	f.View(func(tx *ledger.Tx) error {
		var key []byte
		require.NoError(t, tx.QueryRow(`SELECT client_ca_key FROM operators WHERE id = 'op-a'`).Scan(&key))
		assert.Nil(t, key)
		return nil
	})
	refused(t, ledger.ReasonOperatorRevoked, check(receiver, ledger.RoleReceiver, false))
	require.NoError(t, check(receiver, ledger.RoleReceiver, true), "it lived when its operator was revoked")
	refused(t, ledger.ReasonOperatorRevoked, check(old, ledger.RoleReceiver, true))
	refused(t, ledger.ReasonOperatorRevoked, check(sender, "", true))
}
