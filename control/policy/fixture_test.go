// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"crypto/x509"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/control/pki"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/signedpolicy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// fixture is a hub that runs on a real store, with operator op-eu and clusters.
type fixture struct {
	*Hub
	t     *testing.T
	ctx   context.Context
	clock *clock
	ops   *operators.Service
	actor operators.Actor
}

func newFixture(t *testing.T, clusters ...string) *fixture {
	t.Helper()
	f := &fixture{t: t, ctx: t.Context(), clock: &clock{t: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}}
	store, err := ledger.Open(f.ctx, ledger.Options{DataDir: t.TempDir(), Now: f.clock.now})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	setting, err := pki.NewSealSetting(nil, pki.DefaultSealCost)
	require.NoError(t, err)
	sealer, err := pki.OpenSealer(nil, setting)
	require.NoError(t, err)
	f.Hub = NewHub(store, pki.NewKeyring(sealer), slog.New(slog.DiscardHandler))
	f.ops = operators.New(operators.Config{Store: store, CAs: operators.SealedCAs{Sealer: sealer}, LastWords: f.Hub, Now: f.clock.now})
	secret := controlapi.NewSecret(controlapi.SecretAdmin, nil)
	_, err = f.ops.Bootstrap(f.ctx, secret)
	require.NoError(t, err)
	f.actor, err = f.ops.Authenticate(f.ctx, secret)
	require.NoError(t, err)
	_, _, err = f.ops.PutOperator(f.ctx, f.actor, operators.OperatorRequest{ID: "op-eu", Name: "EU", Role: operators.RoleCentral})
	require.NoError(t, err)
	for _, id := range clusters {
		_, err := f.ops.CreateCluster(f.ctx, f.actor, operators.ClusterRequest{ID: id})
		require.NoError(t, err)
		_, err = f.ops.ApproveCluster(f.ctx, f.actor, id)
		require.NoError(t, err)
		_, _, err = f.ops.ConnectSender(f.ctx, f.actor, "op-eu", id, operators.SenderRequest{})
		require.NoError(t, err)
	}
	f.run()
	return f
}

func (f *fixture) run() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	f.t.Cleanup(func() {
		f.Stop()
		cancel()
		require.NoError(f.t, <-done)
	})
}

func (f *fixture) read(signed *Signed) *controlapi.Policy {
	f.t.Helper()
	var in operators.PolicyInput
	require.NoError(f.t, f.store.View(f.ctx, func(tx *ledger.Tx) (err error) {
		in, err = operators.ReadPolicyInput(tx, "op-eu")
		return err
	}))
	ca, err := x509.ParseCertificate(in.CACert)
	require.NoError(f.t, err)
	p, err := signedpolicy.Verify(signed.JWS, ca)
	require.NoError(f.t, err)
	return p
}

func (f *fixture) hold(cluster string) *controlapi.Receipt {
	f.t.Helper()
	receipt, err := f.ops.RevokeSender(f.ctx, f.actor, "op-eu", cluster, operators.RevokeRequest{Reason: operators.RevokeHold})
	require.NoError(f.t, err)
	return receipt
}

func (f *fixture) record(r *controlapi.Report) (out Recorded, err error) {
	err = f.store.Update(f.ctx, func(tx *ledger.Tx) (err error) {
		out, err = f.Record(tx, "op-eu", r)
		return err
	})
	f.Reported()
	return out, err
}

func reportAt(instance string, v controlapi.Version) *controlapi.Report {
	return &controlapi.Report{Instance: instance, Policy: controlapi.ReportPolicy{Version: v, AppliedAt: time.Unix(1, 0)}, Senders: []controlapi.ReportSender{}}
}

func (f *fixture) version() (v ledger.Version, err error) {
	err = f.store.View(f.ctx, func(tx *ledger.Tx) (err error) {
		v, err = tx.Version()
		return err
	})
	return v, err
}
