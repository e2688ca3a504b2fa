// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package operators

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/audit"
	"github.com/ikhnos/continuum/internal/controlapi"
)

func TestBootstrapOnce(t *testing.T) {
	f := newFixture(t)
	created, err := f.Bootstrap(f.ctx, controlapi.NewSecret(controlapi.SecretAdmin, nil))
	require.NoError(t, err)
	assert.False(t, created)
	_, err = f.Bootstrap(f.ctx, "ikadm_nonsense")
	require.Error(t, err)
	root, err := f.Authenticate(f.ctx, " "+f.secrets[0]+"\n")
	require.NoError(t, err)
	assert.Equal(t, RoleServer, root.Role)
	orgs, err := f.ListOrgs(f.ctx, Page{})
	require.NoError(t, err)
	assert.Equal(t, []Org{{ID: "acme", Name: "Org acme"}, {ID: "default", Name: "Default"}, {ID: "other", Name: "Org other"}}, orgs.Items)
}

func TestCreateOrg(t *testing.T) {
	f := newFixture(t)
	root := Actor{OrgID: DefaultOrg, Name: "root", Role: RoleServer}
	_, err := f.CreateOrg(f.ctx, root, OrgRequest{ID: "acme", Name: "Again"})
	requireReason(t, controlapi.ReasonNameTaken, err)
	_, err = f.CreateOrg(f.ctx, root, OrgRequest{ID: "ACME"})
	p := requireReason(t, controlapi.ReasonValidationFailed, err)
	assert.Equal(t, []string{"id", "name"}, fields(p))
	assert.Empty(t, f.events())
	org, err := f.CreateOrg(f.ctx, root, OrgRequest{ID: "third", Name: "Third"})
	require.NoError(t, err)
	assert.Equal(t, []string{audit.OrganisationCreated, audit.AdminTokenCreated}, f.events())
	a, err := f.Authenticate(f.ctx, org.AdminToken)
	require.NoError(t, err)
	assert.Equal(t, "third", a.OrgID)
	assert.Equal(t, RoleAdmin, a.Role)
}

func TestEnter(t *testing.T) {
	f := newFixture(t)
	root := Actor{OrgID: DefaultOrg, Role: RoleServer}
	a, err := f.Enter(f.ctx, root, "other")
	require.NoError(t, err)
	assert.Equal(t, "other", a.OrgID)
	_, err = f.Enter(f.ctx, root, "nowhere")
	requireReason(t, controlapi.ReasonNotFound, err)
	a, err = f.Enter(f.ctx, f.acme, "acme")
	require.NoError(t, err)
	assert.Equal(t, f.acme, a)
	_, foreign := f.Enter(f.ctx, f.acme, "other")
	_, absent := f.Enter(f.ctx, f.acme, "nowhere")
	assert.Equal(t, absent, foreign)
	requireReason(t, controlapi.ReasonNotFound, foreign)
}

func TestRoles(t *testing.T) {
	for i, role := range adminRoles {
		for j, other := range adminRoles {
			assert.Equal(t, i >= j, role.Allows(other), "%s %s", role, other)
		}
		assert.False(t, role.Allows("god"))
		assert.False(t, AdminRole("god").Allows(role))
	}
	requireReason(t, controlapi.ReasonForbidden, Actor{Role: RoleViewer}.Require(RoleConnector))
	assert.NoError(t, Actor{Role: RoleAdmin}.Require(RoleConnector))
}

func TestAdminTokens(t *testing.T) {
	f := newFixture(t)
	end := f.clock.now().Add(time.Hour)
	token, err := f.CreateAdminToken(f.ctx, f.acme, AdminTokenRequest{Name: "ci", Role: RoleConnector, ExpiresAt: &end})
	require.NoError(t, err)
	assert.Equal(t, controlapi.Seconds(end), *token.ExpiresAt)
	a, err := f.Authenticate(f.ctx, token.Token)
	require.NoError(t, err)
	assert.Equal(t, Actor{OrgID: "acme", Name: "ci", Role: RoleConnector, TokenID: token.TokenID}, a)

	list, err := f.ListAdminTokens(f.ctx, f.acme, Page{})
	require.NoError(t, err)
	require.Len(t, list.Items, 2)
	for _, item := range list.Items {
		assert.Empty(t, item.Token)
	}

	_, err = f.CreateAdminToken(f.ctx, f.acme, AdminTokenRequest{Name: "root", Role: RoleServer})
	requireReason(t, controlapi.ReasonForbidden, err)
	past := f.clock.now().Add(-time.Hour)
	_, err = f.CreateAdminToken(f.ctx, f.acme, AdminTokenRequest{Role: "god", ExpiresAt: &past})
	p := requireReason(t, controlapi.ReasonValidationFailed, err)
	assert.Equal(t, []string{"name", "role", "expiresAt"}, fields(p))

	f.clock.add(time.Hour)
	_, err = f.Authenticate(f.ctx, token.Token)
	requireReason(t, controlapi.ReasonAdminUnauthenticated, err)

	requireReason(t, controlapi.ReasonNotFound, f.RevokeAdminToken(f.ctx, f.other, token.TokenID))
	require.NoError(t, f.RevokeAdminToken(f.ctx, f.acme, token.TokenID))
	requireReason(t, controlapi.ReasonNotFound, f.RevokeAdminToken(f.ctx, f.acme, token.TokenID))
	assert.Equal(t, []string{audit.AdminTokenCreated, audit.AdminTokenRevoked}, f.events())
}

func TestAdminTokenOfHigherRoleStays(t *testing.T) {
	f := newFixture(t)
	tokens, err := f.ListAdminTokens(f.ctx, Actor{OrgID: DefaultOrg}, Page{})
	require.NoError(t, err)
	admin := Actor{OrgID: DefaultOrg, Role: RoleAdmin}
	requireReason(t, controlapi.ReasonForbidden, f.RevokeAdminToken(f.ctx, admin, tokens.Items[0].TokenID))
}

func TestAuthenticateRefuses(t *testing.T) {
	f := newFixture(t)
	for _, secret := range []string{"", "ikadm_", controlapi.NewSecret(controlapi.SecretAdmin, nil),
		controlapi.NewSecret(controlapi.SecretHeartbeat, nil), f.secrets[0][:20]} {
		_, err := f.Authenticate(f.ctx, secret)
		requireReason(t, controlapi.ReasonAdminUnauthenticated, err)
	}
}

func TestSessions(t *testing.T) {
	f := newFixture(t)
	session, a, err := f.StartSession(f.ctx, f.secrets[1], "req-9", "192.0.2.9")
	require.NoError(t, err)
	f.keep(session.Secret)
	assert.Equal(t, "acme", a.OrgID)
	read, again, err := f.Session(f.ctx, session.Secret)
	require.NoError(t, err)
	assert.Equal(t, session, read)
	assert.Equal(t, a.TokenID, again.TokenID)

	_, _, err = f.StartSession(f.ctx, "ikadm_wrong", "", "")
	requireReason(t, controlapi.ReasonAdminUnauthenticated, err)
	_, _, err = f.Session(f.ctx, "unknown")
	requireReason(t, controlapi.ReasonAdminUnauthenticated, err)

	require.NoError(t, f.EndSession(f.ctx, a, session.Secret))
	require.NoError(t, f.EndSession(f.ctx, a, session.Secret))
	_, _, err = f.Session(f.ctx, session.Secret)
	requireReason(t, controlapi.ReasonAdminUnauthenticated, err)
	assert.Equal(t, []string{audit.SessionStarted, audit.SessionEnded}, f.events())

	t.Run("ends by the clock", func(t *testing.T) {
		session, _, err := f.StartSession(f.ctx, f.secrets[1], "", "")
		require.NoError(t, err)
		f.clock.add(sessionLife)
		_, _, err = f.Session(f.ctx, session.Secret)
		requireReason(t, controlapi.ReasonAdminUnauthenticated, err)
	})
	t.Run("ends with its token", func(t *testing.T) {
		token, err := f.CreateAdminToken(f.ctx, f.acme, AdminTokenRequest{Name: "me", Role: RoleViewer})
		require.NoError(t, err)
		session, _, err := f.StartSession(f.ctx, token.Token, "", "")
		require.NoError(t, err)
		require.NoError(t, f.RevokeAdminToken(f.ctx, f.acme, token.TokenID))
		_, _, err = f.Session(f.ctx, session.Secret)
		requireReason(t, controlapi.ReasonAdminUnauthenticated, err)
	})
}

func TestPages(t *testing.T) {
	f := newFixture(t)
	for _, id := range []string{"c1", "c2", "c3"} {
		f.cluster(id, nil)
	}
	var seen []string
	page := Page{Limit: 2}
	for {
		list, err := f.ListClusters(f.ctx, f.acme, ClusterFilter{}, page)
		require.NoError(t, err)
		for _, c := range list.Items {
			seen = append(seen, c.ID)
		}
		if list.NextCursor == "" {
			break
		}
		page.Cursor = list.NextCursor
	}
	assert.Equal(t, []string{"c1", "c2", "c3"}, seen)
	for _, bad := range []Page{{Limit: 501}, {Limit: -1}, {Cursor: "?"}, {Cursor: "_w"}} {
		_, err := f.ListClusters(f.ctx, f.acme, ClusterFilter{}, bad)
		requireReason(t, controlapi.ReasonRequestMalformed, err)
	}
	_, err := f.FindSenders(f.ctx, f.acme, SenderFilter{}, Page{Cursor: "YWJj"})
	requireReason(t, controlapi.ReasonRequestMalformed, err)
	empty, err := f.ListClusters(f.ctx, f.other, ClusterFilter{}, Page{})
	require.NoError(t, err)
	assert.JSONEq(t, `{"items":[],"nextCursor":""}`, asJSON(empty))
}
