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

func TestPutCluster(t *testing.T) {
	f := newFixture(t)
	r := ClusterRequest{ID: "c1", Labels: map[string]string{"env": "prod"}, Tenant: &controlapi.Tenant{Account: 7, Project: 0}}
	c, created, err := f.PutCluster(f.ctx, f.acme, r)
	require.NoError(t, err)
	assert.True(t, created)
	assert.JSONEq(t, `{"id":"c1","kind":"kubernetes","labels":{"env":"prod"},"tenant":{"account":7,"project":0},
		"silentAfter":"5m","state":"pending","createdAt":"2026-03-01T12:00:00Z","createdBy":"initial"}`, asJSON(c))
	assert.Equal(t, []string{audit.ClusterRegistered}, f.events())

	again, created, err := f.PutCluster(f.ctx, f.acme, r)
	require.NoError(t, err)
	assert.False(t, created)
	assert.Equal(t, c, again)
	assert.Empty(t, f.events(), "nothing changed")

	r.Kind, r.SilentAfter, r.Tenant = ClusterHost, "90s", nil
	changed, _, err := f.PutCluster(f.ctx, f.acme, r)
	require.NoError(t, err)
	read, err := f.GetCluster(f.ctx, f.acme, "c1")
	require.NoError(t, err)
	assert.Equal(t, changed, read)
	assert.Equal(t, "90s", read.SilentAfter)
	assert.Nil(t, read.Tenant)
	assert.Equal(t, []string{audit.ClusterUpdated}, f.events())

	_, err = f.CreateCluster(f.ctx, f.acme, r)
	requireReason(t, controlapi.ReasonNameTaken, err)
	_, err = f.CreateCluster(f.ctx, f.other, r)
	require.NoError(t, err, "ids are unique in their organisation")
	_, _, err = f.PutCluster(f.ctx, f.acme, ClusterRequest{
		ID: "op-c1", Kind: "vm", Labels: map[string]string{"continuum": "x"}, SilentAfter: "soon"})
	p := requireReason(t, controlapi.ReasonValidationFailed, err)
	assert.Equal(t, []string{"id", "kind", "labels", "silentAfter"}, fields(p))
}

func TestApproveCluster(t *testing.T) {
	f := newFixture(t)
	_, err := f.CreateCluster(f.ctx, f.acme, ClusterRequest{ID: "c1"})
	require.NoError(t, err)
	f.clock.add(time.Minute)
	c, err := f.ApproveCluster(f.ctx, f.acme, "c1")
	require.NoError(t, err)
	assert.Equal(t, ClusterApproved, c.State)
	assert.Equal(t, f.store.Now(), *c.ApprovedAt)
	again, err := f.ApproveCluster(f.ctx, f.acme, "c1")
	require.NoError(t, err)
	assert.Equal(t, c, again)
	assert.Equal(t, []string{audit.ClusterRegistered, audit.ClusterApproved}, f.events())

	list, err := f.ListClusters(f.ctx, f.acme, ClusterFilter{State: ClusterPending}, Page{})
	require.NoError(t, err)
	assert.Empty(t, list.Items)
	list, err = f.ListClusters(f.ctx, f.acme, ClusterFilter{State: ClusterApproved, Kind: ClusterKubernetes}, Page{})
	require.NoError(t, err)
	assert.Len(t, list.Items, 1)
}

func TestClusterLabelsReachThePolicies(t *testing.T) {
	f := newFixture(t)
	f.central("op-central")
	f.regional("op-a", "op-central")
	f.regional("op-b", "")
	f.cluster("c1", map[string]string{"env": "stage"})
	f.connect("op-a", "c1")
	a, b, central := f.number("op-a"), f.number("op-b"), f.number("op-central")
	_, _, err := f.PutCluster(f.ctx, f.acme, ClusterRequest{ID: "c1", Labels: map[string]string{"env": "prod"}})
	require.NoError(t, err)
	assert.Greater(t, f.number("op-a"), a)
	assert.Greater(t, f.number("op-central"), central, "it vouches for the pair")
	assert.Equal(t, b, f.number("op-b"))
	assert.Equal(t, "prod", f.policy("op-a").Senders[0].Labels["env"])

	a = f.number("op-a")
	_, _, err = f.PutCluster(f.ctx, f.acme, ClusterRequest{ID: "c1", Labels: map[string]string{"env": "prod"}, SilentAfter: "1h"})
	require.NoError(t, err)
	assert.Equal(t, a, f.number("op-a"), "no policy shows silentAfter")
}

func TestRevokeClusterEverywhere(t *testing.T) {
	f := newFixture(t)
	f.central("op-central")
	f.regional("op-a", "op-central")
	f.regional("op-b", "")
	f.cluster("c1", nil)
	f.connect("op-a", "c1")
	f.connect("op-b", "c1")
	leafA, leafB := f.leaf("op-a", "c1"), f.leaf("op-b", "c1")
	f.report("op-a", "i1", f.clock.now())
	open := f.mint("op-b", TokenRequest{Role: controlapi.RoleSender, Sender: "c1"})
	f.drain()

	receipt, err := f.RevokeCluster(f.ctx, f.acme, "c1", NoteRequest{Note: "sold"})
	require.NoError(t, err)
	assert.Equal(t, ledger.StateRevoked, f.state(leafA))
	assert.Equal(t, ledger.StateRevoked, f.state(leafB))
	require.Len(t, receipt.Instances, 1)
	assert.Equal(t, receipt.Number, f.number("op-a"))
	assert.Equal(t, receipt.Number, f.number("op-b"))
	assert.Equal(t, receipt.Number, f.number("op-central"))
	assert.Equal(t, controlapi.SenderRevoked, f.policy("op-b").Senders[0].State)
	_, err = f.issue(open)
	assert.ErrorContains(t, err, "token_revoked")
	lines := f.drain()
	require.Len(t, lines, 1)
	assert.Equal(t, audit.ClusterRevoked, lines[0].Event)
	assert.EqualValues(t, 2, lines[0].Detail["leaves"])
	assert.EqualValues(t, 1, lines[0].Detail["tokens"])
	assert.Equal(t, "sold", lines[0].Detail["note"])

	again, err := f.RevokeCluster(f.ctx, f.acme, "c1", NoteRequest{})
	require.NoError(t, err)
	assert.Equal(t, receipt, again)
	assert.Empty(t, f.drain())

	// Approving allows it again; each connection comes back by its restore.
	_, err = f.RestoreSender(f.ctx, f.acme, "op-a", "c1")
	requireReason(t, controlapi.ReasonClusterNotApproved, err)
	_, err = f.ApproveCluster(f.ctx, f.acme, "c1")
	require.NoError(t, err)
	_, err = f.issue(open)
	assert.ErrorContains(t, err, "token_revoked")
	restored, err := f.RestoreSender(f.ctx, f.acme, "op-a", "c1")
	require.NoError(t, err)
	_, err = f.issue(restored.Token)
	require.NoError(t, err)
	assert.Equal(t, ledger.StateRevoked, f.state(leafA))
}

func TestRevokePendingCluster(t *testing.T) {
	f := newFixture(t)
	_, err := f.CreateCluster(f.ctx, f.acme, ClusterRequest{ID: "c1"})
	require.NoError(t, err)
	receipt, err := f.RevokeCluster(f.ctx, f.acme, "c1", NoteRequest{})
	require.NoError(t, err)
	assert.Empty(t, receipt.Instances)
	_, err = f.RevokeCluster(f.ctx, f.acme, "c1", NoteRequest{Note: "bad\x00"})
	requireReason(t, controlapi.ReasonValidationFailed, err)
}

func TestDeleteClusterFreesItsIDLate(t *testing.T) {
	f := newFixture(t)
	f.central("op-central")
	f.regional("op-a", "op-central")
	f.cluster("c1", map[string]string{"env": "prod"})
	f.connect("op-a", "c1")
	leaf := f.leaf("op-a", "c1")
	f.drain()
	_, err := f.DeleteCluster(f.ctx, f.acme, "c1")
	require.NoError(t, err)
	assert.Equal(t, []string{audit.ClusterRevoked, audit.ClusterDeleted}, f.events())
	assert.Equal(t, ledger.StateRevoked, f.state(leaf))
	_, err = f.GetCluster(f.ctx, f.acme, "c1")
	requireReason(t, controlapi.ReasonNotFound, err)
	_, err = f.DeleteCluster(f.ctx, f.acme, "c1")
	requireReason(t, controlapi.ReasonNotFound, err)
	senders, err := f.ListSenders(f.ctx, f.acme, "op-a", Page{})
	require.NoError(t, err)
	assert.Empty(t, senders.Items)

	// The policy goes on denying the name, and vouches for its data on the way.
	in := f.policy("op-a")
	require.Len(t, in.Senders, 1)
	assert.Equal(t, controlapi.SenderRevoked, in.Senders[0].State)
	assert.Equal(t, []controlapi.Vouch{{OrgID: "acme", ClusterID: "c1", Labels: map[string]string{"env": "prod"}}},
		f.policy("op-central").Senders[0].Vouches)

	_, err = f.CreateCluster(f.ctx, f.acme, ClusterRequest{ID: "c1"})
	requireReason(t, controlapi.ReasonNameTaken, err)
	f.clock.add(30 * 24 * time.Hour)
	_, err = f.CreateCluster(f.ctx, f.acme, ClusterRequest{ID: "c1"})
	requireReason(t, controlapi.ReasonNameTaken, err) // good up to and including its last second
	f.clock.add(time.Second)
	f.cluster("c1", nil)
	f.connect("op-a", "c1")
	in = f.policy("op-a")
	require.Len(t, in.Senders, 1)
	assert.Equal(t, controlapi.SenderAllowed, in.Senders[0].State)
	f.leaf("op-a", "c1")
}

func TestDeleteClusterWithoutLeavesFreesItsIDAtOnce(t *testing.T) {
	f := newFixture(t)
	f.cluster("c1", nil)
	_, err := f.DeleteCluster(f.ctx, f.acme, "c1")
	require.NoError(t, err)
	f.cluster("c1", nil)
}
