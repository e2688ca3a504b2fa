// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package liveness

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/control/pki"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// TestUnconfirmed: what was lifted, or cut off anew, is no problem any more; a
// certificate that was revoked stays one. While no instance is known to confirm,
// living leaves are the problem.
func TestUnconfirmed(t *testing.T) {
	ctx, at := t.Context(), time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	now := func() time.Time { return at }
	store, err := ledger.Open(ctx, ledger.Options{DataDir: t.TempDir(), Now: now})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	setting, err := pki.NewSealSetting(nil, pki.DefaultSealCost)
	require.NoError(t, err)
	sealer, err := pki.OpenSealer(nil, setting)
	require.NoError(t, err)
	ops := operators.New(operators.Config{Store: store, CAs: operators.SealedCAs{Sealer: sealer}, Now: now})
	secret := controlapi.NewSecret(controlapi.SecretAdmin, nil)
	_, err = ops.Bootstrap(ctx, secret)
	require.NoError(t, err)
	actor, err := ops.Authenticate(ctx, secret)
	require.NoError(t, err)
	_, _, err = ops.PutOperator(ctx, actor, operators.OperatorRequest{ID: "op-eu", Name: "EU", Role: operators.RoleCentral})
	require.NoError(t, err)
	_, err = ops.CreateCluster(ctx, actor, operators.ClusterRequest{ID: "c1"})
	require.NoError(t, err)
	_, err = ops.ApproveCluster(ctx, actor, "c1")
	require.NoError(t, err)
	_, _, err = ops.ConnectSender(ctx, actor, "op-eu", "c1", operators.SenderRequest{})
	require.NoError(t, err)
	token, err := ops.MintToken(ctx, actor, "op-eu", operators.TokenRequest{Role: controlapi.RoleSender, Sender: "c1"})
	require.NoError(t, err)
	leaf, err := store.Issue(ctx, ledger.IssueRequest{TokenHash: controlapi.HashSecret(token.Token), SPKI: "aa", Lifetime: time.Hour})
	require.NoError(t, err)
	report := func() {
		require.NoError(t, store.Update(ctx, func(tx *ledger.Tx) error {
			_, err := tx.Exec(`INSERT INTO reports (operator_id, instance, epoch, number, report, reported_at) VALUES
				('op-eu', 'i1', 1, 0, '{}', $1), ('op-eu', 'i2', 1, 0, '{}', $1)`, now().Unix())
			return err
		}))
	}

	cut := func(reason operators.RevokeReason) func() {
		return func() {
			_, err := ops.RevokeSender(ctx, actor, "op-eu", "c1", operators.RevokeRequest{Reason: reason})
			require.NoError(t, err)
		}
	}
	restore := func() {
		_, err := ops.RestoreSender(ctx, actor, "op-eu", "c1")
		require.NoError(t, err)
	}
	const sender = "the revocation of sender op-eu-export-c1 is not confirmed by "
	certificate := "the revocation of certificate op-eu " + leaf.Entry.Serial + " is not confirmed by 2 instances"
	const nobody = sender + "1 operator of which no instance has ever reported"
	for _, step := range []struct {
		name string
		do   func()
		want []string
	}{
		{"held while no instance is known", cut(operators.RevokeHold), []string{nobody}},
		{"its leaf has an hour", func() { at = at.Add(time.Hour) }, []string{nobody}},
		{"its leaf has ended", func() { at = at.Add(time.Second) }, nil},
		{"lifted before that", func() { restore(); at = at.Add(-time.Hour - time.Second) }, nil},
		{"instances report", report, nil},
		{"held", cut(operators.RevokeHold), []string{sender + "2 instances"}},
		{"one confirms", func() {
			require.NoError(t, store.Update(ctx, func(tx *ledger.Tx) error {
				_, err := tx.Exec(`UPDATE receipt_instances SET applied_at_ms = 1 WHERE instance = 'i1'`)
				return err
			}))
		}, []string{sender + "1 instance"}},
		{"lifted", restore, nil},
		{"held again", cut(operators.RevokeHold), []string{sender + "2 instances"}},
		{"cut off for good", cut(operators.RevokeRetired), []string{sender + "2 instances"}},
		{"let in again", restore, nil},
		{"its certificate", func() {
			_, err := ops.RevokeCertificate(ctx, actor, "op-eu", leaf.Entry.Serial, operators.NoteRequest{})
			require.NoError(t, err)
		}, []string{certificate}},
		{"held and lifted after it", func() { cut(operators.RevokeHold)(); restore() }, []string{certificate}},
	} {
		step.do()
		s, err := New(store, ops, func() ServerFacts { return ServerFacts{} }).Summarize(ctx, actor, ops)
		require.NoError(t, err)
		var got []string
		for _, a := range s.Attention {
			if a.Kind == AttentionUnconfirmed {
				got = append(got, a.Why)
			}
		}
		assert.Equal(t, step.want, got, step.name)
	}
}
