// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package operators

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/audit"
	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/pki"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/identity"
)

// restored is a fixture as after a restore: op-central, op-a that sends to it, c1
// connected to op-a, in a new epoch.
func restored(t *testing.T) *fixture {
	f := connected(t)
	f.clock.add(time.Hour)
	f.newEpoch()
	f.drain()
	return f
}

func (f *fixture) newEpoch() {
	f.t.Helper()
	f.update(func(tx *ledger.Tx) error {
		_, err := tx.NewEpoch()
		return err
	})
}

func (f *fixture) update(fn func(tx *ledger.Tx) error) {
	f.t.Helper()
	require.NoError(f.t, f.store.Update(f.ctx, fn))
}

// lose signs a leaf of a holder, issued at a time, that the ledger lacks, and
// shows it to the server. It returns its serial.
func (f *fixture) lose(operatorID, holderID string, issuedAt time.Time, edit ...func(*pki.Record)) string {
	f.t.Helper()
	in := f.policy(operatorID)
	ca, err := pki.NewKeyring(f.cas.(SealedCAs).Sealer).CA(operatorID, in.CACert, in.CAKey)
	require.NoError(f.t, err)
	rec := pki.Record{
		OperatorID: operatorID, Serial: hex.EncodeToString(pki.NewSerial().Bytes()), Role: controlapi.RoleSender, Kind: controlapi.KindCluster,
		HolderID: holderID, Holder: identity.SenderName(operatorID, holderID),
		NotBefore: issuedAt.Truncate(time.Second).Add(-10 * time.Minute), NotAfter: issuedAt.Truncate(time.Second).Add(30 * 24 * time.Hour),
	}
	for _, e := range edit {
		e(&rec)
	}
	template, err := pki.Template(rec, false)
	require.NoError(f.t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(f.t, err)
	der, err := pki.Sign(template, &key.PublicKey, ca)
	require.NoError(f.t, err)
	f.update(func(tx *ledger.Tx) error { return tx.KeepUnknownLeaf(operatorID, rec.Serial, der) })
	return rec.Serial
}

func asReceiver(r *pki.Record) {
	r.Role, r.Kind, r.HolderID, r.Holder = controlapi.RoleReceiver, controlapi.KindOperator, r.OperatorID, r.OperatorID
}

func (f *fixture) adopt(after time.Time, mode AdoptMode) map[string]Adoption {
	f.t.Helper()
	answer, err := f.Adopt(f.ctx, f.acme, AdoptRequest{IssuedAfter: after, Mode: mode})
	require.NoError(f.t, err)
	bySerial := map[string]Adoption{}
	for _, item := range answer.Items {
		bySerial[item.Serial] = item
	}
	return bySerial
}

// TestAdopt admits what was issued since the backup, and says why not.
func TestAdopt(t *testing.T) {
	f := connected(t)
	parent := f.leaf("op-a", "c1")
	f.cluster("c2", nil)
	f.connect("op-a", "c2")
	_, err := f.CreateCluster(f.ctx, f.acme, ClusterRequest{ID: "c3"})
	require.NoError(t, err)
	for _, id := range []string{"c5", "c8"} {
		f.cluster(id, nil)
		f.connect("op-a", id)
	}
	_, err = f.RevokeSender(f.ctx, f.acme, "op-a", "c5", RevokeRequest{Reason: RevokeHold})
	require.NoError(t, err)
	stolen := f.leaf("op-a", "c8")
	f.clock.add(time.Hour)
	issued := f.clock.now()
	f.clock.add(time.Hour)
	f.newEpoch()
	f.update(func(tx *ledger.Tx) error {
		require.NoError(t, tx.DenyLostName("op-a", "op-a-export-c6"))
		_, err := tx.RevokeLeaf("op-a", stolen.Serial, "compromised")
		return err
	})
	for _, state := range []string{"deleted", "revoked"} {
		f.update(func(tx *ledger.Tx) error {
			_, err := tx.Exec(`INSERT INTO clusters (org_id, id, kind, labels, silent_after, state, created_at, created_by)
				VALUES ('acme', $1, 'host', '{}', 300, $2, 0, '')`, "x-"+state, state)
			return err
		})
	}
	f.drain()

	want := map[string]string{ // serial to note; "" is adopted
		f.lose("op-a", "c1", issued):                                            "adopted",
		f.lose("op-a", "op-a", issued, asReceiver):                              "adopted",
		f.lose("op-a", "c2", issued):                                            "adopted",
		f.lose("op-a", "c3", issued):                                            "adopted: its sender was connected again",
		f.lose("op-a", "c4", issued):                                            "adopted: its cluster was registered and its sender connected again: set its labels",
		f.lose("op-a", "x-deleted", issued):                                     "adopted: its cluster was registered and its sender connected again: set its labels",
		f.lose("op-a", "c5", issued):                                            "left: its sender is held",
		f.lose("op-a", "c6", issued):                                            "left: it was denied before the restore",
		f.lose("op-a", "x-revoked", issued):                                     "left: its cluster is revoked",
		f.lose("op-a", "c8", issued):                                            "left: a certificate that it may have been renewed from was revoked since",
		f.lose("op-a", "c2", issued.Add(-31*24*time.Hour)):                      "left: it has ended",
		f.lose("op-central", "op-b", issued, kindOperator):                      "left: the operator that holds it was created after the backup: create it again",
		f.lose("op-central", "op-a", issued, kindOperator):                      "adopted",
		f.lose("op-a", "c1", issued.Add(-35*24*time.Hour)):                      "too old",
		f.lose("op-a", "c9", issued, func(r *pki.Record) { r.Holder = "me" }):   "foreign",
		f.lose("op-a", "c9", issued, func(r *pki.Record) { r.HolderID = "c1" }): "foreign",
	}
	after := issued.Add(-32 * 24 * time.Hour)
	outcome := func(items map[string]Adoption) map[string]string {
		got := map[string]string{}
		for serial, item := range items {
			got[serial] = string(item.Result)
			if item.Note != "" {
				got[serial] += ": " + item.Note
			}
		}
		return got
	}
	for serial, note := range want {
		if note == "too old" || note == "foreign" {
			delete(want, serial)
		}
	}
	number := f.number("op-a")
	assert.Equal(t, want, outcome(f.adopt(after, AdoptDryRun)))
	assert.Empty(t, f.events())
	assert.Equal(t, number, f.number("op-a"), "a dry run changes nothing")
	adopted := f.adopt(after, "")
	assert.Equal(t, want, outcome(adopted))
	events := f.events()
	assert.Contains(t, events, audit.OperatorCertificateAdopted)
	assert.Contains(t, events, audit.ClusterRegistered)
	assert.Contains(t, events, audit.SenderConnected)
	assert.Greater(t, f.number("op-a"), number)
	for serial, item := range adopted {
		if item.Result != AdoptResultAdopted {
			continue
		}
		require.NoError(t, f.store.View(f.ctx, func(tx *ledger.Tx) error {
			e, err := tx.Entry(item.OperatorID, serial)
			require.NoError(t, err)
			assert.Equal(t, ledger.StateValid, e.State)
			assert.Equal(t, issued.UTC().Truncate(time.Second), e.IssuedAt)
			assert.True(t, e.RenewAfter.After(e.IssuedAt) && e.RenewBy.After(e.RenewAfter))
			if item.Holder == "op-a-export-c1" {
				assert.Equal(t, parent.Serial, e.Parent, "revoking that one revokes it too")
			}
			return nil
		}))
	}
	for _, id := range []string{"op-a", "op-central"} {
		_, err = f.store.Verify(f.ctx, id)
		require.NoError(t, err)
	}
	for serial, item := range f.adopt(after, AdoptNow) {
		assert.Equal(t, AdoptResultLeft, item.Result, serial)
	}
}

func kindOperator(r *pki.Record) { r.Kind = controlapi.KindOperator }

// TestAdoptIsolated: another organisation sees nothing of it, and a request says
// since when.
func TestAdoptIsolated(t *testing.T) {
	f := restored(t)
	f.lose("op-a", "c1", f.clock.now())
	answer, err := f.Adopt(f.ctx, f.other, AdoptRequest{IssuedAfter: f.clock.now().Add(-time.Hour)})
	require.NoError(t, err)
	assert.Empty(t, answer.Items)
	_, err = f.Adopt(f.ctx, f.acme, AdoptRequest{})
	assert.Equal(t, []string{"issuedAfter"}, fields(requireReason(t, controlapi.ReasonValidationFailed, err)))
	_, err = f.Adopt(f.ctx, f.acme, AdoptRequest{IssuedAfter: f.clock.now(), Mode: "maybe"})
	assert.Equal(t, []string{"mode"}, fields(requireReason(t, controlapi.ReasonValidationFailed, err)))
	_, err = f.RevokeOperator(f.ctx, f.acme, "op-a", RemovalRequest{Force: true})
	require.NoError(t, err)
	assert.Empty(t, f.adopt(f.clock.now().Add(-time.Hour), AdoptNow), "a revoked operator's leaves stay lost")
}

// accepts enters a report of op-a's that names senders it has accepted.
func (f *fixture) accepts(at time.Time, names ...string) {
	f.t.Helper()
	r := controlapi.Report{Instance: "i1"}
	for _, name := range names {
		r.Senders = append(r.Senders, controlapi.ReportSender{Name: name, LastAcceptedAt: &at})
	}
	text, err := json.Marshal(r)
	require.NoError(f.t, err)
	f.update(func(tx *ledger.Tx) error {
		_, err := tx.Exec(`INSERT INTO reports (operator_id, instance, epoch, number, report, reported_at)
			VALUES ('op-a', 'i1', (SELECT epoch FROM change_counter), 1, $1, $2)
			ON CONFLICT (operator_id, instance) DO UPDATE SET report = excluded.report, epoch = excluded.epoch`, string(text), at.Unix())
		return err
	})
}

// TestLostSender: what an operator goes on to allow is shown, and can be revoked.
func TestLostSender(t *testing.T) {
	f := connected(t)
	lost := func() (names []string) {
		require.NoError(t, f.store.View(f.ctx, func(tx *ledger.Tx) error {
			all, err := LostSenders(tx, "acme")
			for _, l := range all {
				names = append(names, l.Name)
			}
			return err
		}))
		return names
	}
	f.accepts(f.clock.now(), "op-a-export-c1", "op-a-export-c9")
	assert.Empty(t, lost(), "nothing is lost before a restore")
	f.newEpoch()
	assert.Empty(t, lost(), "the report is of an older epoch")
	f.accepts(f.clock.now(), "op-a-export-c1", "op-a-export-c9", "op-b-export-c9", "op-a-export-op-x")
	assert.Equal(t, []string{"op-a-export-c9", "op-a-export-op-x"}, lost())

	_, err := f.RevokeSender(f.ctx, f.other, "op-a", "c9", RevokeRequest{Reason: RevokeRetired})
	requireReason(t, controlapi.ReasonNotFound, err)
	_, err = f.RevokeSender(f.ctx, f.acme, "op-a", "c8", RevokeRequest{Reason: RevokeRetired})
	requireReason(t, controlapi.ReasonNotFound, err)
	for _, holder := range []string{"c9", "op-x"} {
		receipt, err := f.RevokeSender(f.ctx, f.acme, "op-a", holder, RevokeRequest{Reason: RevokeRetired})
		require.NoError(t, err)
		assert.Len(t, receipt.Instances, 1)
	}
	assert.Empty(t, lost())
	states := map[string]controlapi.SenderState{}
	for _, s := range f.policy("op-a").Senders {
		states[s.Name] = s.State
	}
	assert.Equal(t, map[string]controlapi.SenderState{
		"op-a-export-c1": controlapi.SenderAllowed, "op-a-export-c9": controlapi.SenderRevoked, "op-a-export-op-x": controlapi.SenderRevoked,
	}, states)
	f.accepts(f.clock.now().Add(-vouchFor-time.Second), "op-a-export-c7")
	assert.Empty(t, lost(), "so old a line may be of one that was removed")
}

// TestSweepPrunes: entries and tokens go 400 days after their end, in one event a
// day, and the chain stays right (trap-15).
func TestSweepPrunes(t *testing.T) {
	f := connected(t)
	old := f.leaf("op-a", "c1")
	f.clock.add(20 * 24 * time.Hour)
	young := f.leaf("op-a", "c1")
	f.clock.add(keepFor + 12*24*time.Hour)
	f.drain()
	for range 3 {
		require.NoError(t, f.Sweep(f.ctx))
	}
	assert.Equal(t, []string{audit.LedgerPruned}, f.events())
	require.NoError(t, f.store.View(f.ctx, func(tx *ledger.Tx) error {
		_, err := tx.Entry("op-a", old.Serial)
		assert.ErrorIs(t, err, ledger.ErrNotFound)
		_, err = tx.Entry("op-a", young.Serial)
		assert.NoError(t, err)
		var tokens int
		require.NoError(t, tx.QueryRow(`SELECT COUNT(*) FROM enrollment_tokens`).Scan(&tokens))
		assert.Zero(t, tokens, "their hour passed more than 400 days ago")
		return nil
	}))
	_, err := f.store.Verify(f.ctx, "op-a")
	require.NoError(t, err)
}
