// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package operators

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/internal/controlapi"
)

// Every call on an object of another organisation answers exactly what it
// answers for one that does not exist.
func TestOrganisationsAreIsolated(t *testing.T) {
	f := connected(t)
	leaf := f.leaf("op-a", "c1")
	token, err := f.MintToken(f.ctx, f.acme, "op-a", TokenRequest{Role: controlapi.RoleReceiver})
	require.NoError(t, err)
	_, err = f.CreateOperator(f.ctx, f.other, OperatorRequest{ID: "op-own", Name: "Own", Role: RoleCentral})
	require.NoError(t, err)
	_, err = f.CreateCluster(f.ctx, f.other, ClusterRequest{ID: "own"})
	require.NoError(t, err)
	_, err = f.ApproveCluster(f.ctx, f.other, "own")
	require.NoError(t, err)
	f.drain()
	before := f.policy("op-a")

	calls := map[string]func(operatorID, clusterID string) error{
		"get cluster":     func(_, c string) error { return second(f.GetCluster(f.ctx, f.other, c)) },
		"approve cluster": func(_, c string) error { return second(f.ApproveCluster(f.ctx, f.other, c)) },
		"revoke cluster":  func(_, c string) error { return second(f.RevokeCluster(f.ctx, f.other, c, NoteRequest{})) },
		"delete cluster":  func(_, c string) error { return second(f.DeleteCluster(f.ctx, f.other, c)) },
		"get operator":    func(o, _ string) error { return second(f.GetOperator(f.ctx, f.other, o)) },
		"set address": func(o, _ string) error {
			return second(f.SetAddress(f.ctx, f.other, o, AddressRequest{Address: "a.example"}))
		},
		"revoke operator": func(o, _ string) error {
			return second(f.RevokeOperator(f.ctx, f.other, o, RemovalRequest{Force: true}))
		},
		"delete operator": func(o, _ string) error {
			return second(f.DeleteOperator(f.ctx, f.other, o, RemovalRequest{Force: true}))
		},
		"reissue":        func(o, _ string) error { return f.RecordReissue(f.ctx, f.other, o, KeysEnrolled) },
		"mint heartbeat": func(o, _ string) error { return second(f.MintHeartbeat(f.ctx, f.other, o)) },
		"connect own cluster": func(o, _ string) error {
			_, _, err := f.ConnectSender(f.ctx, f.other, o, "own", SenderRequest{})
			return err
		},
		"connect their cluster": func(_, c string) error {
			_, _, err := f.ConnectSender(f.ctx, f.other, "op-own", c, SenderRequest{})
			return err
		},
		"connect their operator": func(o, _ string) error {
			_, _, err := f.ConnectSender(f.ctx, f.other, "op-own", o, SenderRequest{})
			return err
		},
		"get sender":   func(o, c string) error { return second(f.GetSender(f.ctx, f.other, o, c)) },
		"list senders": func(o, _ string) error { return second(f.ListSenders(f.ctx, f.other, o, Page{})) },
		"revoke sender": func(o, c string) error {
			return second(f.RevokeSender(f.ctx, f.other, o, c, RevokeRequest{Reason: RevokeHold}))
		},
		"restore sender": func(o, c string) error { return second(f.RestoreSender(f.ctx, f.other, o, c)) },
		"rekey sender":   func(o, c string) error { return second(f.RekeySender(f.ctx, f.other, o, c, RekeyRequest{})) },
		"mint receiver token": func(o, _ string) error {
			return second(f.MintToken(f.ctx, f.other, o, TokenRequest{Role: controlapi.RoleReceiver}))
		},
		"mint sender token": func(_, c string) error {
			return second(f.MintToken(f.ctx, f.other, "op-own", TokenRequest{Role: controlapi.RoleSender, Sender: c}))
		},
		"list tokens":  func(o, _ string) error { return second(f.ListTokens(f.ctx, f.other, o, Page{})) },
		"revoke token": func(o, _ string) error { return f.RevokeToken(f.ctx, f.other, o, token.TokenID) },
		"revoke certificate": func(o, _ string) error {
			return second(f.RevokeCertificate(f.ctx, f.other, o, leaf.Serial, NoteRequest{}))
		},
		"create with their source": func(_, c string) error {
			r := regionalRequest("op-new", "")
			r.SourceClusterIDs = []string{c}
			return second(f.CreateOperator(f.ctx, f.other, r))
		},
		"create with their destination": func(o, _ string) error {
			return second(f.CreateOperator(f.ctx, f.other, regionalRequest("op-new", o)))
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			foreign, absent := call("op-a", "c1"), call("op-none", "none")
			require.Error(t, absent)
			assert.Equal(t, absent, foreign)
			p := new(controlapi.Problem)
			require.ErrorAs(t, foreign, &p)
			assert.Contains(t, []controlapi.Reason{controlapi.ReasonNotFound, controlapi.ReasonValidationFailed,
				controlapi.ReasonDestinationNotAllowed}, p.Reason)
		})
	}
	assert.Empty(t, f.events(), "nothing happened")
	assert.Equal(t, before, f.policy("op-a"))
}

// One line of the audit trail for every change, in the actor's name.
func TestEveryChangeIsAudited(t *testing.T) {
	f := newFixture(t)
	end := f.clock.now().Add(time.Hour)
	steps := []struct {
		name  string
		do    func() error
		lines int
	}{
		{"register", func() error { return second(f.CreateCluster(f.ctx, f.acme, ClusterRequest{ID: "c1"})) }, 1},
		{"approve", func() error { return second(f.ApproveCluster(f.ctx, f.acme, "c1")) }, 1},
		{"update", func() error {
			_, _, err := f.PutCluster(f.ctx, f.acme, ClusterRequest{ID: "c1", Kind: ClusterHost})
			return err
		}, 1},
		{"create operator", func() error { return second(f.CreateOperator(f.ctx, f.acme, regionalRequest("op-a", ""))) }, 1},
		{"address", func() error {
			return second(f.SetAddress(f.ctx, f.acme, "op-a", AddressRequest{Address: "a.example"}))
		}, 1},
		{"heartbeat", func() error { return second(f.MintHeartbeat(f.ctx, f.acme, "op-a")) }, 1},
		{"reissue", func() error { return f.RecordReissue(f.ctx, f.acme, "op-a", KeysEnrolled) }, 1},
		{"connect", func() error {
			_, _, err := f.ConnectSender(f.ctx, f.acme, "op-a", "c1", SenderRequest{})
			return err
		}, 1},
		{"mint", func() error {
			return second(f.MintToken(f.ctx, f.acme, "op-a", TokenRequest{Role: controlapi.RoleSender, Sender: "c1"}))
		}, 1},
		{"rekey", func() error { return second(f.RekeySender(f.ctx, f.acme, "op-a", "c1", RekeyRequest{})) }, 2},
		{"hold", func() error {
			return second(f.RevokeSender(f.ctx, f.acme, "op-a", "c1", RevokeRequest{Reason: RevokeHold}))
		}, 1},
		{"revoke", func() error {
			return second(f.RevokeSender(f.ctx, f.acme, "op-a", "c1", RevokeRequest{Reason: RevokeRetired}))
		}, 1},
		{"restore", func() error { return second(f.RestoreSender(f.ctx, f.acme, "op-a", "c1")) }, 2},
		{"admin token", func() error {
			return second(f.CreateAdminToken(f.ctx, f.acme, AdminTokenRequest{Name: "x", Role: RoleViewer, ExpiresAt: &end}))
		}, 1},
		{"revoke cluster", func() error { return second(f.RevokeCluster(f.ctx, f.acme, "c1", NoteRequest{})) }, 1},
		{"delete cluster", func() error { return second(f.DeleteCluster(f.ctx, f.acme, "c1")) }, 1},
		{"revoke operator", func() error { return second(f.RevokeOperator(f.ctx, f.acme, "op-a", RemovalRequest{})) }, 1},
		{"delete operator", func() error { return second(f.DeleteOperator(f.ctx, f.acme, "op-a", RemovalRequest{})) }, 1},
	}
	for _, step := range steps {
		require.NoError(t, step.do(), step.name)
		lines := f.drain()
		assert.Len(t, lines, step.lines, step.name)
		for _, line := range lines {
			assert.Equal(t, "acme", line.OrgID)
			assert.Equal(t, "initial", line.Actor)
			assert.Equal(t, "req-1", line.RequestID)
			assert.Equal(t, "192.0.2.1", line.Address)
			assert.NotEmpty(t, line.Object)
		}
	}
}
