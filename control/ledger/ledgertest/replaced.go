// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledgertest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/ledger"
)

// rekey replaces leaves of c1 at op-a for an hour.
func (f *Fixture) rekey(t *testing.T, leaves ...ledger.Entry) {
	t.Helper()
	var serials []string
	for _, e := range leaves {
		serials = append(serials, e.Serial)
	}
	text, err := json.Marshal(serials)
	require.NoError(t, err)
	f.Exec(`UPDATE senders SET replaced_serials = $1, replaced_until = $2 WHERE operator_id = 'op-a' AND holder_id = 'c1'`,
		string(text), f.Clock.Now().Add(time.Hour).Unix())
}

func (f *Fixture) replaced(t *testing.T) (serials []string, number int64) {
	t.Helper()
	var text string
	f.View(func(tx *ledger.Tx) error {
		return tx.QueryRow(`SELECT s.replaced_serials, o.change_number FROM senders s JOIN operators o ON o.id = s.operator_id
			WHERE s.operator_id = 'op-a' AND s.holder_id = 'c1'`).Scan(&text, &number)
	})
	require.NoError(t, json.Unmarshal([]byte(text), &serials))
	return serials, number
}

// Contract 4: "rekey: old leaves live until the first request with the new one".
// What an old leaf is renewed to is no new one, and does not take its place.
func testRenewReplaced(t *testing.T, f *Fixture) {
	old := f.MustEnroll("op-a", ledger.RoleSender, "c1", "k1")
	f.rekey(t, old)
	_, before := f.replaced(t)
	child, err := f.Renew(old, "k2")
	require.NoError(t, err, "there is no new leaf yet")
	serials, after := f.replaced(t)
	assert.Equal(t, []string{old.Serial, child.Entry.Serial}, serials)
	assert.Greater(t, after, before, "the policy shows it")

	again, err := f.Renew(old, "k2")
	require.NoError(t, err)
	assert.True(t, again.Repeated)
	unchanged, number := f.replaced(t)
	assert.Equal(t, serials, unchanged)
	assert.Equal(t, after, number)

	fresh := f.MustEnroll("op-a", ledger.RoleSender, "c1", "k3")
	for _, e := range []ledger.Entry{old, child.Entry} {
		_, err = f.Renew(e, "k4")
		refused(t, ledger.ReasonLeafRevoked, err)
		assert.Equal(t, ledger.StateSuperseded, f.Entry("op-a", e.Serial).State, "it still sends")
	}
	assert.Equal(t, ledger.StateValid, f.Entry("op-a", fresh.Serial).State)
	next, err := f.Renew(fresh, "k4")
	require.NoError(t, err)
	unchanged, number = f.replaced(t)
	assert.Equal(t, serials, unchanged, "the new leaf and its renewals are not replaced")
	assert.Equal(t, after, number)

	f.Update(func(tx *ledger.Tx) error {
		_, err := tx.RevokeLeaf("op-a", fresh.Serial, "compromised")
		return err
	})
	assert.Equal(t, ledger.StateRevoked, f.Entry("op-a", next.Entry.Serial).State)
	_, err = f.Renew(child.Entry, "k5")
	require.NoError(t, err, "the new leaves are gone")
}

// Contract 4: "rekey: old leaves live … at most `overlap`", also while no sweep
// has come to revoke them.
func testReplacedOver(t *testing.T, f *Fixture) {
	token := f.Token("op-a", ledger.RoleSender, "c1")
	out, err := f.Enroll(token, "k1")
	require.NoError(t, err)
	old := out.Entry
	f.rekey(t, old)
	f.Clock.Advance(time.Hour - time.Second)
	child, err := f.Renew(old, "k2")
	require.NoError(t, err, "the overlap lasts")
	f.Clock.Advance(time.Second)
	for _, e := range []ledger.Entry{old, child.Entry} {
		_, err = f.Renew(e, "k3")
		refused(t, ledger.ReasonLeafRevoked, err)
	}
	_, err = f.Enroll(token, "k1")
	refused(t, ledger.ReasonLeafRevoked, err)
	err = f.Store.Update(t.Context(), func(tx *ledger.Tx) error {
		_, err := tx.CheckProof(*f.Proof(old), ledger.RoleSender, false)
		return err
	})
	refused(t, ledger.ReasonLeafRevoked, err)

	fresh := f.MustEnroll("op-a", ledger.RoleSender, "c1", "k4")
	_, err = f.Renew(fresh, "k5")
	require.NoError(t, err)
	other := f.MustEnroll("op-a", ledger.RoleSender, "c2", "k6")
	_, err = f.Renew(other, "k7")
	require.NoError(t, err, "another sender has no rekey")
}
