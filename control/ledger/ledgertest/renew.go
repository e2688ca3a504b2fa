// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledgertest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/audit"
	"github.com/ikhnos/continuum/control/ledger"
)

func testRenew(t *testing.T, f *Fixture) {
	first := f.MustEnroll("op-a", ledger.RoleSender, "c1", "k1")
	f.Clock.Advance(10 * day)
	out, err := f.Renew(first, "k2")
	require.NoError(t, err)
	e := out.Entry
	assert.Equal(t, first.Serial, e.Parent)
	assert.Equal(t, first.Holder, e.Holder)
	assert.Equal(t, first.HolderID, e.HolderID)
	assert.Equal(t, first.Kind, e.Kind)
	assert.Equal(t, first.Role, e.Role)
	assert.Equal(t, "op-a-export-c1", e.RequestedBy)
	assert.Equal(t, f.Clock.Now().Add(30*day), e.NotAfter)
	assert.Equal(t, ledger.StateSuperseded, f.Entry("op-a", first.Serial).State)
	assert.Equal(t, 1, f.Audited(audit.OperatorCertificateRenewed))

	receiver := f.MustEnroll("op-a", ledger.RoleReceiver, "op-a", "k3")
	_, err = f.Renew(receiver, "k4")
	require.NoError(t, err)
}

// The order of the contract: what comes first in the table also wins over all
// that comes later, because each step adds a fault and keeps the earlier ones.
func testRenewRefusals(t *testing.T, f *Fixture) {
	leaf := f.MustEnroll("op-a", ledger.RoleSender, "c1", "k1")
	used := f.Proof(leaf)
	f.Update(func(tx *ledger.Tx) error { return tx.UseProof("op-a", leaf.Sequence, used.JTI, used.Expires) })
	try := func(p *ledger.Proof) error {
		_, err := f.Store.Issue(context.Background(), ledger.IssueRequest{Proof: p, SPKI: Key("new"), Lifetime: day})
		return err
	}
	fresh := func() *ledger.Proof { return f.Proof(leaf) }
	again := func() *ledger.Proof { return used }
	for _, test := range []struct {
		reason string
		proof  func() *ledger.Proof
		before func()
	}{
		{ledger.ReasonClusterNotApproved, fresh, func() { f.Exec(`UPDATE clusters SET state = 'revoked' WHERE id = 'c1'`) }},
		{ledger.ReasonSenderHeld, fresh, func() { f.Exec(`UPDATE senders SET state = 'held' WHERE holder_id = 'c1'`) }},
		{ledger.ReasonSenderRevoked, fresh, func() { f.Exec(`UPDATE senders SET removed_at = 1 WHERE holder_id = 'c1'`) }},
		{ledger.ReasonSenderRevoked, fresh, func() { f.Exec(`UPDATE senders SET state = 'revoked' WHERE holder_id = 'c1'`) }},
		{ledger.ReasonProofReplayed, again, func() {}},
		{ledger.ReasonLeafEnded, again, func() { f.Clock.Advance(31 * day) }},
		{ledger.ReasonLeafRevoked, again, func() {
			f.Exec(`UPDATE entries SET revoked_at = 1 WHERE serial = $1`, leaf.Serial)
		}},
		{ledger.ReasonOperatorRevoked, again, func() { f.Exec(`UPDATE operators SET state = 'deleted' WHERE id = 'op-a'`) }},
	} {
		test.before()
		refused(t, test.reason, try(test.proof()))
	}
	other := *fresh()
	other.SPKI = Key("not its key")
	refused(t, ledger.ReasonLeafNotInLedger, try(&other))
	other = *fresh()
	other.Serial = "00"
	refused(t, ledger.ReasonLeafNotInLedger, try(&other))
	assert.Equal(t, 1, f.Count("op-a"))
}

func testRenewRepeated(t *testing.T, f *Fixture) {
	leaf := f.MustEnroll("op-a", ledger.RoleSender, "c1", "k1")
	first, err := f.Renew(leaf, "k2")
	require.NoError(t, err)
	again, err := f.Renew(leaf, "k2")
	require.NoError(t, err)
	assert.Equal(t, first.Entry, again.Entry)
	assert.True(t, again.Repeated)
	assert.Equal(t, 2, f.Count("op-a"))

	proof := f.Proof(leaf)
	ask := func() error {
		_, err := f.Store.Issue(context.Background(), ledger.IssueRequest{Proof: proof, SPKI: Key("k2"), Lifetime: day})
		return err
	}
	require.NoError(t, ask())
	refused(t, ledger.ReasonProofReplayed, ask())

	f.Update(func(tx *ledger.Tx) error {
		_, err := tx.RevokeLeaf("op-a", first.Entry.Serial, "retired")
		return err
	})
	_, err = f.Renew(leaf, "k2")
	refused(t, ledger.ReasonLeafRevoked, err)
}

func testEpoch(t *testing.T, f *Fixture) {
	f.Operator("op-silent", 365*day) // it never reports
	f.Sender("op-silent", "c1")
	leaf := f.MustEnroll("op-a", ledger.RoleSender, "c1", "k1")
	silent := f.MustEnroll("op-silent", ledger.RoleSender, "c1", "k2")
	report := func(operator string) {
		f.Exec(`INSERT INTO reports (operator_id, instance, epoch, number, report, reported_at)
			VALUES ($1, 'i', 1, 0, '', 0) ON CONFLICT DO NOTHING`, operator)
		f.Update(func(tx *ledger.Tx) error { return tx.Recovered(operator) })
	}
	report("op-a")
	token := f.Token("op-a", ledger.RoleSender, "c1")
	f.Clock.Advance(time.Minute)
	f.Update(func(tx *ledger.Tx) error {
		v, err := tx.NewEpoch()
		assert.Equal(t, f.Clock.Now().Unix(), v.Epoch)
		return err
	})
	f.View(func(tx *ledger.Tx) error {
		ids, started, err := tx.Unrecovered(Org)
		assert.Equal(t, []string{"op-a", "op-silent"}, ids)
		assert.Equal(t, f.Clock.Now(), started)
		return err
	})
	_, err := f.Enroll(token, "k3")
	refused(t, ledger.ReasonTokenRevoked, err)
	f.MustEnroll("op-a", ledger.RoleSender, "c2", "k4")

	_, err = f.Renew(leaf, "k5")
	refused(t, ledger.ReasonUnavailable, err)
	_, err = f.Renew(silent, "k6")
	refused(t, ledger.ReasonUnavailable, err)
	f.Clock.Advance(day + time.Second)
	_, err = f.Renew(leaf, "k5")
	refused(t, ledger.ReasonUnavailable, err)
	_, err = f.Renew(silent, "k6")
	require.NoError(t, err, "waited for a day")
	report("op-a")
	_, err = f.Renew(leaf, "k5")
	require.NoError(t, err)

	f.Operator("op-new", 365*day)
	f.Sender("op-new", "c1")
	_, err = f.Renew(f.MustEnroll("op-new", ledger.RoleSender, "c1", "k7"), "k8")
	require.NoError(t, err, "it was made in this epoch")
	f.Update(func(tx *ledger.Tx) error {
		before, err := tx.Version()
		require.NoError(t, err)
		_, err = tx.Exec(`UPDATE change_counter SET epoch = $1`, f.Clock.Now().Unix()+5)
		require.NoError(t, err)
		after, err := tx.NewEpoch()
		assert.Equal(t, f.Clock.Now().Unix()+6, after.Epoch, "also when the clock is behind")
		assert.Greater(t, after.Number, before.Number)
		return err
	})
	_, err = f.Store.Verify(context.Background(), "op-a")
	require.NoError(t, err)
}

func testAdopt(t *testing.T, f *Fixture) {
	known := f.MustEnroll("op-a", ledger.RoleSender, "c1", "k1")
	lost := known
	lost.Serial, lost.SPKI, lost.Parent = "0a0b", Key("lost"), known.Serial
	lost.IssuedAt = lost.IssuedAt.Add(-time.Hour)
	_, err := f.Renew(lost, "k2")
	refused(t, ledger.ReasonLeafNotInLedger, err)
	f.Update(func(tx *ledger.Tx) error {
		require.NoError(t, tx.KeepUnknownLeaf("op-a", lost.Serial, []byte("der")))
		return tx.KeepUnknownLeaf("op-a", lost.Serial, []byte("der"))
	})
	f.View(func(tx *ledger.Tx) error {
		leaves, err := tx.UnknownLeaves()
		assert.Equal(t, []ledger.UnknownLeaf{{OperatorID: "op-a", Serial: "0a0b", Leaf: []byte("der"), SeenAt: Epoch}}, leaves)
		return err
	})
	for _, want := range []bool{true, false} {
		f.Update(func(tx *ledger.Tx) error {
			adopted, err := tx.Adopt(lost)
			assert.Equal(t, want, adopted)
			return err
		})
	}
	assert.Equal(t, ledger.StateSuperseded, f.Entry("op-a", lost.Serial).State, "a later leaf is there")
	assert.Equal(t, ledger.StateValid, f.Entry("op-a", known.Serial).State)
	_, err = f.Renew(lost, "k2")
	require.NoError(t, err)
	f.View(func(tx *ledger.Tx) error {
		leaves, err := tx.UnknownLeaves()
		assert.Empty(t, leaves)
		return err
	})
	_, err = f.Store.Verify(context.Background(), "op-a")
	require.NoError(t, err)
}

// testLost denies what a restored ledger knows nothing of (trap-10).
func testLost(t *testing.T, f *Fixture) {
	known := f.MustEnroll("op-a", ledger.RoleSender, "c1", "k1")
	lost := known
	lost.Serial, lost.SPKI = "0a0b", Key("lost")
	deny := func(serials ...string) (n int) {
		f.Update(func(tx *ledger.Tx) (err error) {
			require.NoError(t, tx.DenyLostName("op-a", "op-a-export-c9"))
			n, err = tx.DenySerials("op-a", append(serials, "", "0", "0A", "zz", strings.Repeat("ab", 21)))
			return err
		})
		return n
	}
	assert.Zero(t, deny(lost.Serial), "nothing is lost before a restore")
	f.Update(func(tx *ledger.Tx) error {
		_, err := tx.NewEpoch()
		return err
	})
	assert.Equal(t, 2, deny(known.Serial, lost.Serial))
	assert.Zero(t, deny(known.Serial, lost.Serial), "a denial that comes again changes nothing")
	for _, leaf := range []ledger.Entry{known, lost} {
		_, err := f.Renew(leaf, "k2")
		refused(t, ledger.ReasonLeafRevoked, err)
	}
	revoked := func() (serials []string) {
		f.View(func(tx *ledger.Tx) error {
			all, err := tx.RevokedSerials("op-a")
			for _, r := range all {
				assert.Equal(t, ledger.ReasonRecovered, r.Reason)
				assert.Equal(t, Epoch, r.RevokedAt)
				serials = append(serials, r.Serial)
			}
			return err
		})
		return serials
	}
	assert.ElementsMatch(t, []string{known.Serial, lost.Serial}, revoked())
	f.View(func(tx *ledger.Tx) error {
		for _, test := range []struct {
			name, serial string
			want         bool
		}{{"op-a-export-c9", "", true}, {"", "0a0b", true}, {"0a0b", "op-a-export-c9", false}, {"op-a-export-c1", known.Serial, false}} {
			got, err := tx.LostDenial("op-a", test.name, test.serial)
			require.NoError(t, err)
			assert.Equal(t, test.want, got, test)
		}
		return nil
	})
	_, err := f.Store.Verify(context.Background(), "op-a")
	require.NoError(t, err)
	f.Clock.Advance(30*day + time.Second)
	assert.Empty(t, revoked(), "its leaf has ended")
}
