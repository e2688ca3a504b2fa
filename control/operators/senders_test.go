// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package operators

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/audit"
	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// connected is an acme with c1 connected to op-a, which sends to op-central.
func connected(t *testing.T) *fixture {
	f := newFixture(t)
	f.central("op-central")
	f.regional("op-a", "op-central")
	f.cluster("c1", map[string]string{"env": "prod"})
	f.connect("op-a", "c1")
	f.drain()
	return f
}

func TestConnectSender(t *testing.T) {
	f := newFixture(t)
	f.central("op-central")
	f.regional("op-a", "op-central")
	_, err := f.CreateCluster(f.ctx, f.acme, ClusterRequest{ID: "c1"})
	require.NoError(t, err)
	_, _, err = f.ConnectSender(f.ctx, f.acme, "op-a", "c1", SenderRequest{})
	requireReason(t, controlapi.ReasonClusterNotApproved, err)
	_, err = f.MintToken(f.ctx, f.acme, "op-a", TokenRequest{Role: controlapi.RoleSender, Sender: "c1"})
	requireReason(t, controlapi.ReasonClusterNotApproved, err)
	_, err = f.ApproveCluster(f.ctx, f.acme, "c1")
	require.NoError(t, err)
	f.drain()
	a, central := f.number("op-a"), f.number("op-central")

	s, created, err := f.ConnectSender(f.ctx, f.acme, "op-a", "c1", SenderRequest{Address: "10.0.0.1"})
	require.NoError(t, err)
	assert.True(t, created)
	assert.JSONEq(t, `{"name":"op-a-export-c1","holderId":"c1","kind":"cluster","operatorId":"op-a","orgId":"acme",
		"clusterId":"c1","state":"allowed","address":"10.0.0.1:4317","createdAt":"2026-03-01T12:00:00Z"}`, asJSON(s))
	assert.Greater(t, f.number("op-a"), a)
	assert.Greater(t, f.number("op-central"), central)

	again, created, err := f.ConnectSender(f.ctx, f.acme, "op-a", "c1", SenderRequest{Address: "10.0.0.1:4317"})
	require.NoError(t, err)
	assert.False(t, created)
	assert.Equal(t, s.Name, again.Name)
	_, _, err = f.ConnectSender(f.ctx, f.acme, "op-a", "c1", SenderRequest{})
	require.NoError(t, err)
	assert.Equal(t, []string{audit.SenderConnected, audit.SenderUpdated}, f.events())

	// A cluster may send to a central operator directly; an operator is connected
	// by its creation alone.
	f.connect("op-central", "c1")
	_, created, err = f.ConnectSender(f.ctx, f.acme, "op-central", "op-a", SenderRequest{Address: "central.example.com"})
	require.NoError(t, err)
	assert.False(t, created)
	f.regional("op-b", "")
	_, _, err = f.ConnectSender(f.ctx, f.acme, "op-b", "op-a", SenderRequest{})
	requireReason(t, controlapi.ReasonDestinationNotAllowed, err)
	_, _, err = f.ConnectSender(f.ctx, f.acme, "op-a", "c9", SenderRequest{})
	requireReason(t, controlapi.ReasonNotFound, err)
	_, _, err = f.ConnectSender(f.ctx, f.acme, "op-a", "c1", SenderRequest{Address: "127.0.0.1"})
	requireReason(t, controlapi.ReasonValidationFailed, err)
}

func TestFindSenders(t *testing.T) {
	f := connected(t)
	f.cluster("c2", nil)
	f.connect("op-a", "c2")
	f.connect("op-central", "c2")
	_, err := f.RevokeSender(f.ctx, f.acme, "op-a", "c2", RevokeRequest{Reason: RevokeRetired})
	require.NoError(t, err)
	names := func(filter SenderFilter, a Actor) (got []string) {
		page := Page{Limit: 1}
		for {
			list, err := f.FindSenders(f.ctx, a, filter, page)
			require.NoError(t, err)
			for _, s := range list.Items {
				got = append(got, s.Name)
			}
			if page.Cursor = list.NextCursor; page.Cursor == "" {
				return got
			}
		}
	}
	assert.Equal(t, []string{"op-a-export-c1", "op-a-export-c2", "op-central-export-c2", "op-central-export-op-a"}, names(SenderFilter{}, f.acme))
	assert.Equal(t, []string{"op-a-export-c2", "op-central-export-c2"}, names(SenderFilter{HolderID: "c2"}, f.acme))
	assert.Equal(t, []string{"op-a-export-c2"}, names(SenderFilter{State: controlapi.SenderRevoked}, f.acme))
	assert.Equal(t, []string{"op-a-export-c1", "op-a-export-c2"}, names(SenderFilter{OperatorID: "op-a"}, f.acme))
	assert.Empty(t, names(SenderFilter{}, f.other))
	assert.Empty(t, names(SenderFilter{OperatorID: "op-a"}, f.other))
}

func TestRevokeSender(t *testing.T) {
	f := connected(t)
	stolen := f.leaf("op-a", "c1")
	thief, err := f.renew(stolen) // trap-11: the thief renews first
	require.NoError(t, err)
	open := f.mint("op-a", TokenRequest{Role: controlapi.RoleSender, Sender: "c1"})
	f.report("op-a", "i1", f.clock.now())
	f.report("op-a", "i2", f.clock.now().Add(-knownFor))
	f.report("op-a", "replaced", f.clock.now().Add(-knownFor-time.Second))
	f.drain()

	receipt, err := f.RevokeSender(f.ctx, f.acme, "op-a", "c1", RevokeRequest{Reason: RevokeCompromised, Note: "laptop stolen"})
	require.NoError(t, err)
	assert.Equal(t, ledger.StateRevoked, f.state(stolen))
	assert.Equal(t, ledger.StateRevoked, f.state(thief.Entry))
	_, err = f.issue(open)
	assert.ErrorContains(t, err, "token_revoked")
	_, err = f.renew(thief.Entry)
	assert.ErrorContains(t, err, "leaf_revoked")
	assert.Equal(t, f.clock.now().UnixMilli(), receipt.CommittedAtMs)
	assert.Equal(t, f.store.Now(), receipt.CommittedAt)
	assert.Equal(t, []controlapi.ReceiptInstance{
		{Operator: "op-a", Instance: "i1", State: controlapi.ReceiptPending},
		{Operator: "op-a", Instance: "i2", State: controlapi.ReceiptPending},
	}, receipt.Instances)
	policy := f.policy("op-a")
	assert.Equal(t, receipt.Number, policy.Version.Number)
	assert.Equal(t, controlapi.SenderRevoked, policy.Senders[0].State)
	assert.Equal(t, policy.Version, policy.Senders[0].Since)
	assert.Equal(t, receipt.Number, f.number("op-central"), "the pair leaves its vouched set later")
	lines := f.drain()
	require.Len(t, lines, 1)
	assert.Equal(t, map[string]any{"reason": "compromised", "note": "laptop stolen", "receiptId": receipt.ReceiptID,
		"leaves": int64(2), "tokens": int64(1)}, lines[0].Detail)

	for _, reason := range []RevokeReason{RevokeCompromised, RevokeRetired} {
		again, err := f.RevokeSender(f.ctx, f.acme, "op-a", "c1", RevokeRequest{Reason: reason})
		require.NoError(t, err)
		assert.Equal(t, receipt, again)
	}
	_, err = f.RevokeSender(f.ctx, f.acme, "op-a", "c1", RevokeRequest{Reason: RevokeHold})
	requireReason(t, controlapi.ReasonStateConflict, err)
	_, _, err = f.ConnectSender(f.ctx, f.acme, "op-a", "c1", SenderRequest{})
	requireReason(t, controlapi.ReasonStateConflict, err)
	_, err = f.MintToken(f.ctx, f.acme, "op-a", TokenRequest{Role: controlapi.RoleSender, Sender: "c1"})
	requireReason(t, controlapi.ReasonSenderRevoked, err)
	_, err = f.RekeySender(f.ctx, f.acme, "op-a", "c1", RekeyRequest{})
	requireReason(t, controlapi.ReasonSenderRevoked, err)
	assert.Empty(t, f.events())

	restored, err := f.RestoreSender(f.ctx, f.acme, "op-a", "c1")
	require.NoError(t, err)
	assert.Equal(t, "op-a-export-c1", restored.Name)
	assert.Equal(t, []string{audit.SenderRestored, audit.EnrollmentTokenCreated}, f.events())
	assert.Greater(t, f.number("op-a"), receipt.Number)
	issued, err := f.issue(f.keep(restored.Token))
	require.NoError(t, err)
	assert.Equal(t, ledger.StateRevoked, f.state(stolen), "for good")
	assert.Equal(t, ledger.StateValid, f.state(issued.Entry))
}

func TestRevokeSenderValidates(t *testing.T) {
	f := connected(t)
	_, err := f.RevokeSender(f.ctx, f.acme, "op-a", "c1", RevokeRequest{Reason: "bored", Note: "\x1b[31m"})
	assert.Equal(t, []string{"reason", "note"}, fields(requireReason(t, controlapi.ReasonValidationFailed, err)))
	_, err = f.RevokeSender(f.ctx, f.acme, "op-a", "c9", RevokeRequest{Reason: RevokeHold})
	requireReason(t, controlapi.ReasonNotFound, err)
}

func TestHold(t *testing.T) {
	f := connected(t)
	leaf := f.leaf("op-a", "c1")
	f.drain()
	receipt, err := f.RevokeSender(f.ctx, f.acme, "op-a", "c1", RevokeRequest{Reason: RevokeHold})
	require.NoError(t, err)
	assert.Equal(t, ledger.StateValid, f.state(leaf), "it only denies")
	assert.Equal(t, controlapi.SenderHeld, f.policy("op-a").Senders[0].State)
	assert.Len(t, f.policy("op-central").Senders[0].Vouches, 1, "it has not left")
	_, err = f.renew(leaf)
	assert.ErrorContains(t, err, "sender_held")
	_, err = f.MintToken(f.ctx, f.acme, "op-a", TokenRequest{Role: controlapi.RoleSender, Sender: "c1"})
	requireReason(t, controlapi.ReasonSenderHeld, err)
	again, err := f.RevokeSender(f.ctx, f.acme, "op-a", "c1", RevokeRequest{Reason: RevokeHold})
	require.NoError(t, err)
	assert.Equal(t, receipt, again)

	restored, err := f.RestoreSender(f.ctx, f.acme, "op-a", "c1")
	require.NoError(t, err)
	assert.Empty(t, restored.Token, "its leaf works again")
	_, err = f.renew(leaf)
	require.NoError(t, err)
	same, err := f.RestoreSender(f.ctx, f.acme, "op-a", "c1")
	require.NoError(t, err)
	assert.Equal(t, restored, same)
	assert.Equal(t, []string{audit.SenderHeld, audit.SenderRestored, audit.OperatorCertificateRenewed}, f.events())

	_, err = f.RevokeSender(f.ctx, f.acme, "op-a", "c1", RevokeRequest{Reason: RevokeHold})
	require.NoError(t, err)
	harder, err := f.RevokeSender(f.ctx, f.acme, "op-a", "c1", RevokeRequest{Reason: RevokeRetired})
	require.NoError(t, err)
	assert.NotEqual(t, receipt.ReceiptID, harder.ReceiptID)
	assert.Equal(t, ledger.StateRevoked, f.state(leaf))
}

func TestRevokeAfterItsOperator(t *testing.T) {
	f := connected(t)
	_, err := f.RevokeOperator(f.ctx, f.acme, "op-a", RemovalRequest{Force: true})
	require.NoError(t, err)
	_, err = f.RevokeSender(f.ctx, f.acme, "op-a", "c1", RevokeRequest{Reason: RevokeRetired})
	requireReason(t, controlapi.ReasonOperatorRevoked, err)
}

// A denial that an operator brought back after a restore has no receipt yet.
func TestRevokeRecoveredDenial(t *testing.T) {
	f := connected(t)
	require.NoError(t, f.store.Update(f.ctx, func(tx *ledger.Tx) error {
		_, err := tx.Exec(`UPDATE senders SET state = 'revoked' WHERE name = 'op-a-export-c1'`)
		return err
	}))
	receipt, err := f.RevokeSender(f.ctx, f.acme, "op-a", "c1", RevokeRequest{Reason: RevokeRetired})
	require.NoError(t, err)
	again, err := f.RevokeSender(f.ctx, f.acme, "op-a", "c1", RevokeRequest{Reason: RevokeRetired})
	require.NoError(t, err)
	assert.Equal(t, receipt, again)
}

func TestRevokeCertificate(t *testing.T) {
	f := connected(t)
	first := f.leaf("op-a", "c1")
	renewed, err := f.renew(first)
	require.NoError(t, err)
	second := f.leaf("op-a", "c1")
	f.drain()
	receipt, err := f.RevokeCertificate(f.ctx, f.acme, "op-a", first.Serial, NoteRequest{Note: "copied"})
	require.NoError(t, err)
	assert.Equal(t, ledger.StateRevoked, f.state(first))
	assert.Equal(t, ledger.StateRevoked, f.state(renewed.Entry))
	assert.Equal(t, ledger.StateValid, f.state(second))
	assert.Equal(t, controlapi.SenderAllowed, f.policy("op-a").Senders[0].State)
	assert.Equal(t, receipt.Number, f.number("op-a"))
	assert.Equal(t, []string{audit.OperatorCertificateRevoked}, f.events())
	again, err := f.RevokeCertificate(f.ctx, f.acme, "op-a", first.Serial, NoteRequest{})
	require.NoError(t, err)
	assert.Equal(t, receipt, again)
	_, err = f.RevokeCertificate(f.ctx, f.acme, "op-a", "00ff", NoteRequest{})
	requireReason(t, controlapi.ReasonNotFound, err)
}

func TestRekey(t *testing.T) {
	f := connected(t)
	old := f.leaf("op-a", "c1")
	f.drain()
	before := f.number("op-a")
	answer, err := f.RekeySender(f.ctx, f.acme, "op-a", "c1", RekeyRequest{Overlap: "2h"})
	require.NoError(t, err)
	assert.Equal(t, "op-a-export-c1", answer.Name)
	assert.Equal(t, []string{audit.SenderRekeyed, audit.EnrollmentTokenCreated}, f.events())
	assert.Greater(t, f.number("op-a"), before)
	sender := f.policy("op-a").Senders[0]
	assert.Equal(t, &controlapi.Replaced{Serials: []string{old.Serial}, Until: f.store.Now().Add(2 * time.Hour)}, sender.Replaced)
	assert.Equal(t, controlapi.SenderAllowed, sender.State)
	assert.Equal(t, ledger.StateValid, f.state(old))

	descendant, err := f.renew(old)
	require.NoError(t, err)
	issued, err := f.issue(f.keep(answer.Token))
	require.NoError(t, err)
	for _, serial := range []string{old.Serial, descendant.Entry.Serial, "00ff"} {
		require.NoError(t, f.CompleteRekey(f.ctx, "op-a", "op-a-export-c1", serial))
	}
	require.NoError(t, f.CompleteRekey(f.ctx, "op-a", "op-a-export-c9", issued.Entry.Serial))
	assert.NotEqual(t, ledger.StateRevoked, f.state(old), "nothing new was seen yet")

	f.drain()
	require.NoError(t, f.CompleteRekey(f.ctx, "op-a", "op-a-export-c1", issued.Entry.Serial))
	require.NoError(t, f.CompleteRekey(f.ctx, "op-a", "op-a-export-c1", issued.Entry.Serial))
	assert.Equal(t, ledger.StateRevoked, f.state(old))
	assert.Equal(t, ledger.StateRevoked, f.state(descendant.Entry))
	assert.Equal(t, ledger.StateValid, f.state(issued.Entry))
	assert.Nil(t, f.policy("op-a").Senders[0].Replaced)
	lines := f.drain()
	require.Len(t, lines, 1)
	assert.Equal(t, audit.SenderRekeyCompleted, lines[0].Event)
	assert.Equal(t, "acme", lines[0].OrgID)
	assert.Equal(t, audit.ActorServer, lines[0].Actor)
}

func TestRekeyEndsWithItsOverlap(t *testing.T) {
	f := connected(t)
	old := f.leaf("op-a", "c1")
	_, err := f.RekeySender(f.ctx, f.acme, "op-a", "c1", RekeyRequest{})
	require.NoError(t, err)
	f.clock.add(defaultOverlap - time.Second)
	require.NoError(t, f.Sweep(f.ctx))
	assert.NotEqual(t, ledger.StateRevoked, f.state(old))
	f.clock.add(time.Second)
	require.NoError(t, f.Sweep(f.ctx))
	assert.Equal(t, ledger.StateRevoked, f.state(old))
	number := f.number("op-a")
	require.NoError(t, f.Sweep(f.ctx))
	assert.Equal(t, number, f.number("op-a"))
}

// A hold and its end change nothing about a rekey: the old leaves end when their
// overlap does.
func TestRekeyOverAHold(t *testing.T) {
	f := connected(t)
	old := f.leaf("op-a", "c1")
	_, err := f.RekeySender(f.ctx, f.acme, "op-a", "c1", RekeyRequest{Overlap: "1h"})
	require.NoError(t, err)
	_, err = f.RevokeSender(f.ctx, f.acme, "op-a", "c1", RevokeRequest{Reason: RevokeHold})
	require.NoError(t, err)
	_, err = f.RestoreSender(f.ctx, f.acme, "op-a", "c1")
	require.NoError(t, err)
	replaced := f.policy("op-a").Senders[0].Replaced
	require.NotNil(t, replaced)
	assert.Equal(t, []string{old.Serial}, replaced.Serials)
	f.clock.add(time.Hour)
	require.NoError(t, f.Sweep(f.ctx))
	assert.Equal(t, ledger.StateRevoked, f.state(old))
}

// Contract 4: "rekey: old leaves live until the first request with the new one, at
// most `overlap`"; what an old leaf was renewed to is an old leaf, and another
// rekey gives no second overlap.
func TestRekeyAgain(t *testing.T) {
	f := connected(t)
	old := f.leaf("op-a", "c1")
	_, err := f.RekeySender(f.ctx, f.acme, "op-a", "c1", RekeyRequest{Overlap: "1h"})
	require.NoError(t, err)
	before := f.number("op-a")
	descendant, err := f.renew(old)
	require.NoError(t, err)
	assert.Greater(t, f.number("op-a"), before)
	replaced := f.policy("op-a").Senders[0].Replaced
	require.NotNil(t, replaced)
	assert.Equal(t, []string{old.Serial, descendant.Entry.Serial}, replaced.Serials)

	f.clock.add(time.Hour)
	assert.Equal(t, replaced, f.policy("op-a").Senders[0].Replaced, "the policy refuses them until the sweep comes")
	f.drain()
	_, err = f.RekeySender(f.ctx, f.acme, "op-a", "c1", RekeyRequest{Overlap: "1h"})
	require.NoError(t, err)
	assert.Equal(t, []string{audit.SenderRekeyCompleted, audit.SenderRekeyed, audit.EnrollmentTokenCreated}, f.events())
	assert.Equal(t, ledger.StateRevoked, f.state(old))
	assert.Equal(t, ledger.StateRevoked, f.state(descendant.Entry))
	assert.Nil(t, f.policy("op-a").Senders[0].Replaced)
}

func TestRekeyWithoutLeaves(t *testing.T) {
	f := connected(t)
	answer, err := f.RekeySender(f.ctx, f.acme, "op-a", "c1", RekeyRequest{Overlap: "1s"})
	require.NoError(t, err)
	assert.NotEmpty(t, answer.Token)
	assert.Nil(t, f.policy("op-a").Senders[0].Replaced)
	_, err = f.RekeySender(f.ctx, f.acme, "op-a", "c1", RekeyRequest{Overlap: "0s"})
	requireReason(t, controlapi.ReasonValidationFailed, err)
}

func TestVouchesDrain(t *testing.T) {
	f := connected(t)
	vouched := func() []string {
		var ids []string
		for _, v := range f.policy("op-central").Senders[0].Vouches {
			ids = append(ids, v.ClusterID)
		}
		return ids
	}
	f.cluster("c2", nil)
	f.connect("op-a", "c2")
	assert.Equal(t, []string{"c1", "c2"}, vouched())
	_, err := f.RevokeSender(f.ctx, f.acme, "op-a", "c1", RevokeRequest{Reason: RevokeRetired})
	require.NoError(t, err)
	number := f.number("op-central")
	f.clock.add(vouchFor - time.Second)
	require.NoError(t, f.Sweep(f.ctx))
	assert.Equal(t, []string{"c1", "c2"}, vouched())
	assert.Equal(t, number, f.number("op-central"))
	f.clock.add(2 * time.Second) // the receipt is exact to the millisecond, the store's clock to the second
	require.NoError(t, f.Sweep(f.ctx))
	assert.Equal(t, []string{"c2"}, vouched())
	assert.Greater(t, f.number("op-central"), number, "its policy changed by the clock")
	number = f.number("op-central")
	f.clock.add(time.Hour)
	require.NoError(t, f.Sweep(f.ctx))
	assert.Equal(t, number, f.number("op-central"), "announced once")
	_, err = f.RestoreSender(f.ctx, f.acme, "op-a", "c1")
	require.NoError(t, err)
	assert.Equal(t, []string{"c1", "c2"}, vouched())
}

func TestSweepForgetsWhatWasRemoved(t *testing.T) {
	f := connected(t)
	f.leaf("op-a", "c1")
	_, err := f.DeleteCluster(f.ctx, f.acme, "c1")
	require.NoError(t, err)
	rows := func(table string) (n int) {
		require.NoError(t, f.store.View(f.ctx, func(tx *ledger.Tx) error {
			return tx.QueryRow(`SELECT COUNT(*) FROM ` + table).Scan(&n)
		}))
		return n
	}
	f.clock.add(2 * vouchFor)
	require.NoError(t, f.Sweep(f.ctx))
	assert.Equal(t, 2, rows("senders"), "a leaf of it could still be presented")
	f.clock.add(30 * 24 * time.Hour)
	require.NoError(t, f.Sweep(f.ctx))
	assert.Equal(t, 1, rows("senders"))
	assert.Equal(t, 0, rows("clusters"))
}

func TestPolicyInput(t *testing.T) {
	f := connected(t)
	f.connect("op-central", "c1")
	_, err := f.CreateCluster(f.ctx, f.acme, ClusterRequest{ID: "c2", Tenant: &controlapi.Tenant{Account: 4294967295, Project: 2}})
	require.NoError(t, err)
	_, err = f.ApproveCluster(f.ctx, f.acme, "c2")
	require.NoError(t, err)
	f.connect("op-a", "c2")
	in := f.policy("op-central")
	assert.Equal(t, "acme", in.OrgID)
	assert.Equal(t, int64(1), in.Version.Epoch)
	require.Len(t, in.Senders, 2)
	cluster, operator := in.Senders[0], in.Senders[1]
	assert.JSONEq(t, `{"name":"op-central-export-c1","uri":"spiffe://op-central.ikhnos/cluster/c1","kind":"cluster",
		"orgId":"acme","clusterId":"c1","labels":{"env":"prod"},"state":"allowed","since":`+asJSON(cluster.Since)+`,"vouches":[]}`, asJSON(cluster))
	assert.JSONEq(t, `{"name":"op-central-export-op-a","uri":"spiffe://op-central.ikhnos/operator/op-a","kind":"operator",
		"orgId":"acme","operatorId":"op-a","operatorName":"Regional op-a","labels":{"region":"eu"},"state":"allowed",
		"since":`+asJSON(operator.Since)+`,"vouches":[{"orgId":"acme","clusterId":"c1","labels":{"env":"prod"}},{"orgId":"acme","clusterId":"c2","labels":{}}]}`,
		asJSON(operator))
	assert.Equal(t, &controlapi.Tenant{Account: 4294967295, Project: 2}, f.policy("op-a").Senders[1].Tenant)
	err = f.store.View(f.ctx, func(tx *ledger.Tx) error {
		_, err := ReadPolicyInput(tx, "op-none")
		return err
	})
	requireReason(t, controlapi.ReasonNotFound, err)
}
