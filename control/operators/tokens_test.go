// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package operators

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/audit"
	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/internal/controlapi"
)

func TestMintToken(t *testing.T) {
	f := connected(t)
	token, err := f.MintToken(f.ctx, f.acme, "op-a", TokenRequest{Role: controlapi.RoleSender, Sender: "c1", TTL: "90s"})
	require.NoError(t, err)
	assert.Equal(t, "op-a-export-c1", token.Name)
	assert.Equal(t, f.store.Now().Add(90*time.Second), token.ExpiresAt)
	_, prefix, err := controlapi.ParseSecret(controlapi.SecretEnrollment, token.Token)
	require.NoError(t, err)
	var spki string
	require.NoError(t, f.store.View(f.ctx, func(tx *ledger.Tx) error {
		return tx.QueryRow(`SELECT client_ca_spki FROM operators WHERE id = 'op-a'`).Scan(&spki)
	}))
	assert.Equal(t, asHex(prefix), spki[:32], "the token names its CA")

	f.clock.add(90 * time.Second)
	_, err = f.issue(token.Token)
	assert.ErrorContains(t, err, "token_expired")
	receiver, err := f.MintToken(f.ctx, f.acme, "op-a", TokenRequest{Role: controlapi.RoleReceiver})
	require.NoError(t, err)
	assert.Equal(t, "op-a", receiver.Name)
	assert.Equal(t, f.store.Now().Add(time.Hour), receiver.ExpiresAt)
	assert.Equal(t, []string{audit.EnrollmentTokenCreated, audit.EnrollmentTokenCreated}, f.events())
}

func asHex(b []byte) string {
	const digits = "0123456789abcdef"
	var out []byte
	for _, c := range b {
		out = append(out, digits[c>>4], digits[c&15])
	}
	return string(out)
}

func TestMintTokenValidates(t *testing.T) {
	f := connected(t)
	f.cluster("c2", nil)
	for name, tt := range map[string]struct {
		r      TokenRequest
		fields []string
	}{
		"no role":          {TokenRequest{}, []string{"role"}},
		"sender missing":   {TokenRequest{Role: controlapi.RoleSender}, []string{"sender"}},
		"receiver's":       {TokenRequest{Role: controlapi.RoleReceiver, Sender: "c1"}, []string{"sender"}},
		"longer than 7 d":  {TokenRequest{Role: controlapi.RoleReceiver, TTL: "169h"}, []string{"ttl"}},
		"shorter than 1 s": {TokenRequest{Role: controlapi.RoleReceiver, TTL: "0s"}, []string{"ttl"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.MintToken(f.ctx, f.acme, "op-a", tt.r)
			assert.Equal(t, tt.fields, fields(requireReason(t, controlapi.ReasonValidationFailed, err)))
		})
	}
	for _, sender := range []string{"c2", "c9", "op-central"} {
		_, err := f.MintToken(f.ctx, f.acme, "op-a", TokenRequest{Role: controlapi.RoleSender, Sender: sender})
		requireReason(t, controlapi.ReasonNotFound, err)
	}
}

func TestMintingEndsEarlierTokens(t *testing.T) {
	f := connected(t)
	f.cluster("c2", nil)
	f.connect("op-a", "c2")
	first := f.mint("op-a", TokenRequest{Role: controlapi.RoleSender, Sender: "c1"})
	others := []string{
		f.mint("op-a", TokenRequest{Role: controlapi.RoleSender, Sender: "c2"}),
		f.mint("op-a", TokenRequest{Role: controlapi.RoleReceiver}),
		f.mint("op-central", TokenRequest{Role: controlapi.RoleSender, Sender: "op-a"}),
	}
	second := f.mint("op-a", TokenRequest{Role: controlapi.RoleSender, Sender: "c1"})
	_, err := f.issue(first)
	assert.ErrorContains(t, err, "token_revoked")
	for _, token := range append(others, second) {
		_, err := f.issue(token)
		require.NoError(t, err)
	}
}

func TestListAndRevokeTokens(t *testing.T) {
	f := connected(t)
	spent := f.mint("op-a", TokenRequest{Role: controlapi.RoleReceiver})
	_, err := f.issue(spent)
	require.NoError(t, err)
	expired, err := f.MintToken(f.ctx, f.acme, "op-a", TokenRequest{Role: controlapi.RoleReceiver, TTL: "1s"})
	require.NoError(t, err)
	f.clock.add(time.Second)
	open, err := f.MintToken(f.ctx, f.acme, "op-a", TokenRequest{Role: controlapi.RoleSender, Sender: "c1"})
	require.NoError(t, err)
	states := func() map[string]TokenState {
		list, err := f.ListTokens(f.ctx, f.acme, "op-a", Page{})
		require.NoError(t, err)
		got := map[string]TokenState{}
		for _, token := range list.Items {
			assert.Empty(t, token.Token)
			got[token.TokenID] = token.State
		}
		return got
	}
	before := states()
	require.Len(t, before, 3)
	assert.Equal(t, TokenExpired, before[expired.TokenID])
	assert.Equal(t, TokenOpen, before[open.TokenID])
	f.drain()
	for id := range before {
		require.NoError(t, f.RevokeToken(f.ctx, f.acme, "op-a", id))
	}
	assert.Equal(t, []string{audit.EnrollmentTokenRevoked}, f.events())
	before[open.TokenID] = TokenRevoked
	assert.Equal(t, before, states())
	_, err = f.issue(open.Token)
	assert.ErrorContains(t, err, "token_revoked")
	requireReason(t, controlapi.ReasonNotFound, f.RevokeToken(f.ctx, f.acme, "op-central", open.TokenID))

	again, err := f.MintToken(f.ctx, f.acme, "op-a", TokenRequest{Role: controlapi.RoleReceiver})
	require.NoError(t, err)
	require.NoError(t, f.store.Update(f.ctx, func(tx *ledger.Tx) error {
		_, err := tx.NewEpoch()
		return err
	}))
	assert.Equal(t, TokenRevoked, states()[again.TokenID], "from before the epoch")
}

func TestHeartbeatSecrets(t *testing.T) { // HB-10, HB-11, HB-16 to HB-18, HB-22
	f := connected(t)
	first, err := f.MintHeartbeat(f.ctx, f.acme, "op-a")
	require.NoError(t, err)
	id, err := f.HeartbeatOperator(f.ctx, first.Secret)
	require.NoError(t, err)
	assert.Equal(t, "op-a", id)
	op, err := f.GetOperator(f.ctx, f.acme, "op-a")
	require.NoError(t, err)
	assert.Equal(t, SwitchOn, op.Heartbeat)
	assert.True(t, op.HeartbeatMinted)
	second, err := f.MintHeartbeat(f.ctx, f.acme, "op-a")
	require.NoError(t, err)
	_, err = f.HeartbeatOperator(f.ctx, second.Secret)
	require.NoError(t, err)
	assert.Equal(t, []string{audit.OperatorHeartbeatEnabled, audit.OperatorHeartbeatRotated}, f.events())

	_, err = f.RevokeOperator(f.ctx, f.acme, "op-a", RemovalRequest{Force: true})
	require.NoError(t, err)
	_, rotated := f.HeartbeatOperator(f.ctx, first.Secret)
	requireReason(t, controlapi.ReasonHeartbeatUnauthorized, rotated)
	for name, secret := range map[string]string{
		"revoked operator": second.Secret, "unknown": controlapi.NewSecret(controlapi.SecretHeartbeat, nil),
		"malformed": "ikhb_x", "empty": "", "admin's": f.secrets[1],
	} {
		_, err := f.HeartbeatOperator(f.ctx, secret)
		assert.Equal(t, rotated, err, name)
	}
	_, err = f.Authenticate(f.ctx, second.Secret)
	requireReason(t, controlapi.ReasonAdminUnauthenticated, err)
}

// No secret, nor a CA key, stands anywhere in the files or the audit trail.
func TestSecretsStayOut(t *testing.T) {
	f := connected(t)
	f.mint("op-a", TokenRequest{Role: controlapi.RoleReceiver})
	f.mint("op-a", TokenRequest{Role: controlapi.RoleSender, Sender: "c1"})
	heartbeat, err := f.MintHeartbeat(f.ctx, f.acme, "op-a")
	require.NoError(t, err)
	f.keep(heartbeat.Secret)
	token, err := f.CreateAdminToken(f.ctx, f.acme, AdminTokenRequest{Name: "ci", Role: RoleViewer})
	require.NoError(t, err)
	f.keep(token.Token)
	session, _, err := f.StartSession(f.ctx, token.Token, "", "")
	require.NoError(t, err)
	f.keep(session.Secret)
	rekey, err := f.RekeySender(f.ctx, f.acme, "op-a", "c1", RekeyRequest{})
	require.NoError(t, err)
	f.keep(rekey.Token)
	_, err = f.RevokeSender(f.ctx, f.acme, "op-a", "c1", RevokeRequest{Reason: RevokeRetired})
	require.NoError(t, err)
	restored, err := f.RestoreSender(f.ctx, f.acme, "op-a", "c1")
	require.NoError(t, err)
	f.keep(restored.Token)
	key := f.policy("op-a").CAKey
	require.NotEmpty(t, key)
	_, err = f.RevokeOperator(f.ctx, f.acme, "op-a", RemovalRequest{Force: true})
	require.NoError(t, err)

	files, err := filepath.Glob(filepath.Join(f.dir, "*"))
	require.NoError(t, err)
	var all []byte
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		all = append(all, content...)
	}
	require.Contains(t, string(all), "op-a-export-c1", "the files were read")
	for _, secret := range f.secrets {
		assert.NotContains(t, string(all), secret[6:], "%s", secret[:6])
	}
	assert.NotContains(t, string(all), string(key), "an erased key is gone")
	for _, line := range f.drain() {
		for _, secret := range f.secrets {
			assert.NotContains(t, asJSON(line), secret[6:])
		}
	}
}
