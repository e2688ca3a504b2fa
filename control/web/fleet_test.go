// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/ledger/ledgertest"
	"github.com/ikhnos/continuum/control/liveness"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/control/pki"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// leafLife is how long the leaves of a fleet live.
const leafLife = 30 * 24 * time.Hour

// fleet is one organisation on a store in a temporary folder, with a clock that
// the test moves. Secret is of its admin token.
type fleet struct {
	T         testing.TB
	Clock     *ledgertest.Clock
	Store     *ledger.Store
	Operators *operators.Service
	Tracker   *liveness.Tracker
	Actor     operators.Actor
	Secret    string
}

// lastWords signs nothing.
type lastWords struct{}

func (lastWords) Last(*ledger.Tx, string) (string, []byte, error) { return "", nil, nil }

// newFleet makes an empty fleet.
func newFleet(t testing.TB) *fleet {
	t.Helper()
	f := &fleet{T: t, Clock: ledgertest.NewClock(), Secret: controlapi.NewSecret(controlapi.SecretAdmin, nil)}
	var err error
	f.Store, err = ledger.Open(t.Context(), ledger.Options{DataDir: t.TempDir(), Now: f.Clock.Now})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Store.Close()) })
	setting, err := pki.NewSealSetting(nil, pki.SealCost{})
	require.NoError(t, err)
	sealer, err := pki.OpenSealer(nil, setting)
	require.NoError(t, err)
	f.Operators = operators.New(operators.Config{
		Store: f.Store, CAs: operators.SealedCAs{Sealer: sealer}, LastWords: lastWords{}, Now: f.Clock.Now,
	})
	_, err = f.Operators.Bootstrap(t.Context(), f.Secret)
	require.NoError(t, err)
	f.Actor, err = f.Operators.Authenticate(t.Context(), f.Secret)
	require.NoError(t, err)
	f.Tracker = liveness.New(f.Store, f.Operators, func() liveness.ServerFacts { return liveness.ServerFacts{} })
	return f
}

// Cluster registers and approves a cluster.
func (f *fleet) Cluster(id string) {
	f.T.Helper()
	f.Pending(id)
	_, err := f.Operators.ApproveCluster(f.T.Context(), f.Actor, id)
	require.NoError(f.T, err)
}

// Pending registers a cluster that waits for approval.
func (f *fleet) Pending(id string) {
	f.T.Helper()
	_, err := f.Operators.CreateCluster(f.T.Context(), f.Actor, operators.ClusterRequest{ID: id, Labels: map[string]string{"env": "prod"}})
	require.NoError(f.T, err)
}

// Operator makes a regional operator.
func (f *fleet) Operator(id, name string) {
	f.T.Helper()
	_, err := f.Operators.CreateOperator(f.T.Context(), f.Actor, operators.OperatorRequest{
		ID: id, Name: name, Labels: map[string]string{"region": "eu"},
		Destination: &operators.Destination{Kind: operators.DestinationOTLP, Endpoint: "store.example.com:4317"},
	})
	require.NoError(f.T, err)
}

// Connect lets a cluster send to an operator.
func (f *fleet) Connect(operatorID, clusterID string) {
	f.T.Helper()
	_, _, err := f.Operators.ConnectSender(f.T.Context(), f.Actor, operatorID, clusterID, operators.SenderRequest{})
	require.NoError(f.T, err)
}

// Enrol issues a leaf: of the operator itself when clusterID is empty.
func (f *fleet) Enrol(operatorID, clusterID string) ledger.Entry {
	f.T.Helper()
	request := operators.TokenRequest{Role: controlapi.RoleReceiver}
	if clusterID != "" {
		request = operators.TokenRequest{Role: controlapi.RoleSender, Sender: clusterID}
	}
	token, err := f.Operators.MintToken(f.T.Context(), f.Actor, operatorID, request)
	require.NoError(f.T, err)
	issued, err := f.Store.Issue(f.T.Context(), ledger.IssueRequest{
		TokenHash: controlapi.HashSecret(token.Token), SPKI: randomHex(), Lifetime: leafLife,
	})
	require.NoError(f.T, err)
	return issued.Entry
}

// Beat mints a heartbeat secret for an operator and lets it beat once.
func (f *fleet) Beat(operatorID string) {
	f.T.Helper()
	minted, err := f.Operators.MintHeartbeat(f.T.Context(), f.Actor, operatorID)
	require.NoError(f.T, err)
	_, err = f.Tracker.Beat(f.T.Context(), minted.Secret, &controlapi.Heartbeat{
		Version: "0.1.0", Status: controlapi.HealthOK, Policy: &controlapi.Version{Epoch: 1, Number: 7},
	})
	require.NoError(f.T, err)
}

// Report is what the one instance of an operator says now.
func (f *fleet) Report(operatorID string, senders ...controlapi.ReportSender) {
	f.T.Helper()
	text, err := json.Marshal(controlapi.Report{Instance: "i1", Senders: senders})
	require.NoError(f.T, err)
	require.NoError(f.T, f.Store.Update(context.Background(), func(tx *ledger.Tx) error {
		_, err := tx.Exec(`INSERT INTO reports (operator_id, instance, epoch, number, report, reported_at) VALUES ($1, 'i1', 1, 0, $2, $3)
			ON CONFLICT (operator_id, instance) DO UPDATE SET report = excluded.report, reported_at = excluded.reported_at`,
			operatorID, string(text), tx.Now().Unix())
		return err
	}))
}

// Accepted is a sender whose last request was accepted that long ago.
func (f *fleet) Accepted(operatorID, clusterID string, before time.Duration) controlapi.ReportSender {
	at := f.Clock.Now().Add(-before)
	return controlapi.ReportSender{
		Name: operatorID + "-export-" + clusterID, LastAcceptedAt: &at, LastAcceptedAtMs: at.UnixMilli(), Accepted: controlapi.SignalCounts{Logs: 3},
	}
}

func randomHex() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}
