// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package operators

import (
	"crypto/x509"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/audit"
	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// TestCreateOperator: IS-1, IS-2, IS-3, IS-6, IS-7, IS-14, PK-1: an operator stands at
// once, with a CA of its own, no bearer token, and a way to its destination.
func TestCreateOperator(t *testing.T) {
	f := newFixture(t)
	f.central("op-central")
	f.cluster("c1", nil)
	f.drain()
	before := f.number("op-central")
	r := regionalRequest("op-a", "op-central")
	r.SourceClusterIDs, r.Heartbeat, r.Exposure = []string{"c1", "c1"}, SwitchOn, ExposureNodePort
	op, err := f.CreateOperator(f.ctx, f.acme, r)
	require.NoError(t, err)
	assert.JSONEq(t, `{"id":"op-a","name":"Regional op-a","role":"regional",
		"destination":{"kind":"operator","operatorId":"op-central"},"labels":{"region":"eu"},"sourceClusterIds":["c1"],
		"address":"","exposure":"node_port","heartbeat":"on","state":"active","clientCaScope":"operator",
		"receiverAuth":"mtls","createdAt":"2026-03-01T12:00:00Z"}`, asJSON(op)) // IS-6, IS-16, PK-10
	assert.Equal(t, []string{audit.OperatorCreated, audit.SenderConnected, audit.SenderConnected}, f.events())
	read, err := f.GetOperator(f.ctx, f.acme, "op-a")
	require.NoError(t, err)
	assert.Equal(t, op, read)

	in := f.policy("op-a")
	ca, err := x509.ParseCertificate(in.CACert)
	require.NoError(t, err)
	assert.Equal(t, "Ikhnos operator CA op-a", ca.Subject.CommonName) // PK-2
	_, err = x509.ParsePKCS8PrivateKey(in.CAKey)
	assert.Error(t, err, "the key is sealed") // PK-8
	require.NoError(t, f.store.View(f.ctx, func(tx *ledger.Tx) error {
		events, err := tx.EventsAfter("op-a", 0, 10)
		require.Len(t, events, 1)
		assert.Contains(t, string(events[0].Event), `"type":"ca_created"`)
		return err
	}))
	assert.Greater(t, f.number("op-central"), before, "its policy has a new sender")
	sender, err := f.GetSender(f.ctx, f.acme, "op-central", "op-a")
	require.NoError(t, err)
	assert.Equal(t, "op-central-export-op-a", sender.Name)
	assert.Equal(t, controlapi.KindOperator, sender.Kind)
	sender, err = f.GetSender(f.ctx, f.acme, "op-a", "c1")
	require.NoError(t, err)
	assert.Equal(t, "c1", sender.ClusterID)
}

func TestCreateOperatorChoosesAnID(t *testing.T) {
	f := newFixture(t)
	r := regionalRequest("", "")
	r.Name = "EU West"
	op, err := f.CreateOperator(f.ctx, f.acme, r)
	require.NoError(t, err)
	assert.Regexp(t, `^op-eu-west-[a-z0-9]{4}$`, op.ID)
	again, err := f.CreateOperator(f.ctx, f.acme, r)
	require.NoError(t, err)
	assert.NotEqual(t, op.ID, again.ID)
}

func TestCreateOperatorValidates(t *testing.T) {
	f := newFixture(t)
	f.cluster("c1", nil)
	_, err := f.CreateCluster(f.ctx, f.acme, ClusterRequest{ID: "pending"})
	require.NoError(t, err)
	edit := func(fn func(*OperatorRequest)) OperatorRequest {
		r := regionalRequest("op-a", "")
		fn(&r)
		return r
	}
	tests := []struct {
		name   string
		r      OperatorRequest
		fields []string
	}{
		{"everything at once", OperatorRequest{ID: "EU", Role: "local", Exposure: "public", Heartbeat: "yes",
			Labels: map[string]string{"": ""}}, []string{"id", "id", "name", "role", "exposure", "heartbeat", "labels", "labels", "destination"}},
		{"name with a format character", edit(func(r *OperatorRequest) { r.Name = "a\u202eb" }), []string{"name"}},
		{"name of spaces", edit(func(r *OperatorRequest) { r.Name = "  " }), []string{"name"}},
		{"destination of no kind", edit(func(r *OperatorRequest) { r.Destination = &Destination{Endpoint: "a:1"} }), []string{"destination.kind"}},
		{"endpoint without a port", edit(func(r *OperatorRequest) { r.Destination.Endpoint = "store" }), []string{"destination.endpoint"}},
		{"endpoint and operator", edit(func(r *OperatorRequest) { r.Destination.OperatorID = "op-x" }), []string{"destination.operatorId"}},
		{"operator and endpoint", edit(func(r *OperatorRequest) { r.Destination.Kind = DestinationOperator }), []string{"destination.operatorId", "destination.endpoint"}},
		{"source is pending", edit(func(r *OperatorRequest) { r.SourceClusterIDs = []string{"c1", "pending"} }), []string{"sourceClusterIds"}}, // IS-4
		{"source is unknown", edit(func(r *OperatorRequest) { r.SourceClusterIDs = []string{"c9"} }), []string{"sourceClusterIds"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f.drain()
			_, err := f.CreateOperator(f.ctx, f.acme, tt.r)
			p := requireReason(t, controlapi.ReasonValidationFailed, err)
			assert.Equal(t, tt.fields, fields(p))
			assert.Empty(t, f.events())
		})
	}
}

func TestDestinationRules(t *testing.T) { // A-4, IS-12, IS-13
	f := newFixture(t)
	f.central("op-central")
	f.central("op-gone")
	_, err := f.RevokeOperator(f.ctx, f.acme, "op-gone", RemovalRequest{})
	require.NoError(t, err)
	f.regional("op-regional", "")
	_, err = f.CreateOperator(f.ctx, f.other, OperatorRequest{ID: "op-foreign", Name: "Foreign", Role: RoleCentral})
	require.NoError(t, err)
	for name, r := range map[string]OperatorRequest{
		"itself":                 regionalRequest("op-new", "op-new"),
		"regional":               regionalRequest("op-new", "op-regional"),
		"revoked":                regionalRequest("op-new", "op-gone"),
		"unknown":                regionalRequest("op-new", "op-unknown"),
		"another organisation's": regionalRequest("op-new", "op-foreign"),
		"central to central": {ID: "op-new", Name: "New", Role: RoleCentral,
			Destination: &Destination{Kind: DestinationOperator, OperatorID: "op-central"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.CreateOperator(f.ctx, f.acme, r)
			requireReason(t, controlapi.ReasonDestinationNotAllowed, err)
		})
	}
	_, foreign := f.CreateOperator(f.ctx, f.acme, regionalRequest("op-new", "op-foreign"))
	_, unknown := f.CreateOperator(f.ctx, f.acme, regionalRequest("op-new", "op-unknown"))
	assert.Equal(t, unknown, foreign)
	_, err = f.CreateOperator(f.ctx, f.acme, regionalRequest("op-new", "op-central"))
	require.NoError(t, err)
}

func TestPutOperator(t *testing.T) {
	f := newFixture(t)
	r := regionalRequest("op-a", "")
	op, created, err := f.PutOperator(f.ctx, f.acme, r)
	require.NoError(t, err)
	assert.True(t, created)
	assert.Equal(t, SwitchOff, op.Heartbeat, "IS-15: who does not ask for it has none")
	f.drain()
	again, created, err := f.PutOperator(f.ctx, f.acme, r)
	require.NoError(t, err)
	assert.False(t, created)
	assert.Equal(t, op, again)
	for name, edit := range map[string]func(*OperatorRequest){
		"name":        func(r *OperatorRequest) { r.Name = "Other" },
		"role":        func(r *OperatorRequest) { r.Role = RoleCentral },
		"destination": func(r *OperatorRequest) { r.Destination = &Destination{Kind: DestinationOTLP, Endpoint: "other:1"} },
		"labels":      func(r *OperatorRequest) { r.Labels = map[string]string{"region": "us"} },
	} {
		t.Run(name, func(t *testing.T) {
			other := r
			edit(&other)
			_, _, err := f.PutOperator(f.ctx, f.acme, other)
			requireReason(t, controlapi.ReasonStateConflict, err)
		})
	}
	_, err = f.CreateOperator(f.ctx, f.acme, r)
	requireReason(t, controlapi.ReasonNameTaken, err)
	_, _, err = f.PutOperator(f.ctx, f.other, r)
	requireReason(t, controlapi.ReasonNameTaken, err)
	_, err = f.DeleteOperator(f.ctx, f.acme, "op-a", RemovalRequest{})
	require.NoError(t, err)
	_, _, err = f.PutOperator(f.ctx, f.acme, r)
	requireReason(t, controlapi.ReasonNameTaken, err) // never used again
}

func TestLabelWarnings(t *testing.T) {
	f := newFixture(t)
	f.cluster("c1", map[string]string{"Region": "us"})
	op, err := f.CreateOperator(f.ctx, f.acme, regionalRequest("op-a", ""))
	require.NoError(t, err)
	assert.Len(t, op.Warnings, 1)
	sender, _, err := f.ConnectSender(f.ctx, f.acme, "op-a", "c1", SenderRequest{})
	require.NoError(t, err)
	assert.Len(t, sender.Warnings, 1)
}

// TestSetAddress: AD-16, AD-22, AD-23: an address is words for commands that are printed
// from then on; no certificate and no policy shows it.
func TestSetAddress(t *testing.T) {
	f := newFixture(t)
	f.regional("op-a", "")
	f.drain()
	number := f.number("op-a")
	op, err := f.SetAddress(f.ctx, f.acme, "op-a", AddressRequest{Address: "OP.example.com"})
	require.NoError(t, err)
	assert.Equal(t, "op.example.com:4317", op.Address)
	_, err = f.SetAddress(f.ctx, f.acme, "op-a", AddressRequest{Address: "op.example.com:4317"})
	require.NoError(t, err)
	lines := f.drain()
	require.Len(t, lines, 1)
	assert.Equal(t, audit.OperatorAddressChanged, lines[0].Event) // AD-16
	assert.Equal(t, "op-a", lines[0].Object)
	assert.Equal(t, "req-1", lines[0].RequestID)
	_, err = f.SetAddress(f.ctx, f.acme, "op-a", AddressRequest{Address: "localhost"})
	p := requireReason(t, controlapi.ReasonValidationFailed, err)
	assert.NotContains(t, asJSON(p.Errors), "localhost:")
	op, err = f.SetAddress(f.ctx, f.acme, "op-a", AddressRequest{})
	require.NoError(t, err)
	assert.Empty(t, op.Address)
	assert.Equal(t, number, f.number("op-a"), "no policy shows it")
}

func TestListOperators(t *testing.T) {
	f := newFixture(t)
	f.central("op-central")
	f.regional("op-a", "op-central")
	f.regional("op-b", "")
	_, err := f.RevokeOperator(f.ctx, f.acme, "op-b", RemovalRequest{})
	require.NoError(t, err)
	for _, tt := range []struct {
		filter OperatorFilter
		want   []string
	}{
		{OperatorFilter{}, []string{"op-a", "op-b", "op-central"}},
		{OperatorFilter{State: OperatorRevoked}, []string{"op-b"}},
		{OperatorFilter{Role: RoleCentral}, []string{"op-central"}},
		{OperatorFilter{State: "deleted"}, nil},
	} {
		list, err := f.ListOperators(f.ctx, f.acme, tt.filter, Page{})
		require.NoError(t, err)
		var ids []string
		for _, o := range list.Items {
			ids = append(ids, o.ID)
		}
		assert.Equal(t, tt.want, ids)
	}
}

func TestRevokeOperatorInUse(t *testing.T) { // RV-1 to RV-3
	f := newFixture(t)
	f.central("op-central")
	f.regional("op-a", "op-central")
	f.cluster("c1", nil)
	f.connect("op-central", "c1")
	f.connect("op-a", "c1")
	for _, id := range []string{"op-central", "op-a"} {
		_, err := f.RevokeOperator(f.ctx, f.acme, id, RemovalRequest{})
		p := requireReason(t, controlapi.ReasonInUse, err)
		require.NotNil(t, p.Dependents)
		assert.Equal(t, 1, p.Dependents.Clusters)
		_, err = f.DeleteOperator(f.ctx, f.acme, id, RemovalRequest{})
		requireReason(t, controlapi.ReasonInUse, err)
	}
	_, err := f.RevokeOperator(f.ctx, f.acme, "op-central", RemovalRequest{})
	assert.Equal(t, []string{"Regional op-a"}, requireReason(t, controlapi.ReasonInUse, err).Dependents.Operators)
	f.drain()
	removal, err := f.RevokeOperator(f.ctx, f.acme, "op-central", RemovalRequest{Force: true, Note: "moved"})
	require.NoError(t, err)
	assert.Equal(t, "helm uninstall op-central --namespace continuum-system", removal.Uninstall) // RV-7
	lines := f.drain()
	require.Len(t, lines, 1)
	assert.EqualValues(t, 1, lines[0].Detail["operators"])
	assert.EqualValues(t, 1, lines[0].Detail["clusters"])

	_, err = f.RevokeSender(f.ctx, f.acme, "op-a", "c1", RevokeRequest{Reason: RevokeRetired})
	require.NoError(t, err)
	_, err = f.RevokeOperator(f.ctx, f.acme, "op-a", RemovalRequest{})
	require.NoError(t, err, "a revoked sender depends on nothing")
}

// TestRevokeOperator: RV-4, RV-10, PK-9, A-10: nothing is handed out any more, the CA
// key is gone, and what stays is a last policy.
func TestRevokeOperator(t *testing.T) {
	f := newFixture(t)
	f.central("op-central")
	f.regional("op-a", "op-central")
	receiver, err := f.issue(f.mint("op-a", TokenRequest{Role: controlapi.RoleReceiver}))
	require.NoError(t, err)
	export := f.leaf("op-central", "op-a")
	open := f.mint("op-a", TokenRequest{Role: controlapi.RoleReceiver})
	openExport := f.mint("op-central", TokenRequest{Role: controlapi.RoleSender, Sender: "op-a"})
	f.report("op-a", "i1", f.clock.now())
	f.report("op-central", "i2", f.clock.now())
	f.drain()

	removal, err := f.RevokeOperator(f.ctx, f.acme, "op-a", RemovalRequest{})
	require.NoError(t, err)
	assert.Len(t, removal.Instances, 2)
	assert.Equal(t, ledger.StateRevoked, f.state(receiver.Entry))
	assert.Equal(t, ledger.StateRevoked, f.state(export))
	for _, token := range []string{open, openExport} {
		_, err = f.issue(token)
		assert.ErrorContains(t, err, "token_revoked")
	}
	in := f.policy("op-a")
	assert.Equal(t, OperatorRevoked, in.State)
	assert.Nil(t, in.CAKey) // PK-9
	assert.Equal(t, "last policy of op-a", in.LastPolicy)
	assert.Equal(t, "last crl", string(in.LastCRL))
	assert.Equal(t, removal.Number, in.Version.Number)
	central := f.policy("op-central")
	assert.Equal(t, controlapi.SenderRevoked, central.Senders[0].State)
	assert.Equal(t, removal.Number, central.Version.Number)
	assert.Equal(t, []string{audit.OperatorRevoked}, f.events())

	again, err := f.RevokeOperator(f.ctx, f.acme, "op-a", RemovalRequest{})
	require.NoError(t, err)
	assert.Equal(t, removal, again)
	assert.Empty(t, f.events())
	op, err := f.GetOperator(f.ctx, f.acme, "op-a")
	require.NoError(t, err)
	assert.Equal(t, f.store.Now(), *op.RevokedAt)

	for name, err := range map[string]error{
		"address":   second(f.SetAddress(f.ctx, f.acme, "op-a", AddressRequest{Address: "a.example"})),
		"heartbeat": second(f.MintHeartbeat(f.ctx, f.acme, "op-a")),
		"token":     second(f.MintToken(f.ctx, f.acme, "op-a", TokenRequest{Role: controlapi.RoleReceiver})),
		"restore":   second(f.RestoreSender(f.ctx, f.acme, "op-central", "op-a")),
		"reissue":   f.RecordReissue(f.ctx, f.acme, "op-a", KeysEnrolled),
	} {
		t.Run(name, func(t *testing.T) { requireReason(t, controlapi.ReasonOperatorRevoked, err) })
	}
}

func second[T any](_ T, err error) error { return err }

func TestRevokeOperatorKeepsTheKeyWhenSigningFails(t *testing.T) {
	f := newFixture(t)
	f.regional("op-a", "")
	f.words.err = errors.New("no")
	_, err := f.RevokeOperator(f.ctx, f.acme, "op-a", RemovalRequest{})
	require.Error(t, err)
	in := f.policy("op-a")
	assert.Equal(t, OperatorActive, in.State)
	assert.NotEmpty(t, in.CAKey)
}

// TestDeleteOperator: RV-7, RV-8: off every list; a tombstone stays for who still asks.
func TestDeleteOperator(t *testing.T) {
	f := newFixture(t)
	f.central("op-central")
	f.regional("op-a", "op-central")
	f.leaf("op-central", "op-a")
	f.drain()
	removal, err := f.DeleteOperator(f.ctx, f.acme, "op-a", RemovalRequest{})
	require.NoError(t, err)
	assert.Contains(t, removal.Uninstall, "helm uninstall op-a ")
	assert.NotEmpty(t, removal.ReceiptID)
	assert.Equal(t, []string{audit.OperatorRevoked, audit.OperatorDeleted}, f.events())
	_, err = f.GetOperator(f.ctx, f.acme, "op-a")
	requireReason(t, controlapi.ReasonNotFound, err)
	_, err = f.DeleteOperator(f.ctx, f.acme, "op-a", RemovalRequest{})
	requireReason(t, controlapi.ReasonNotFound, err)
	_, err = f.GetSender(f.ctx, f.acme, "op-central", "op-a")
	requireReason(t, controlapi.ReasonNotFound, err)

	in := f.policy("op-a") // the tombstone
	assert.Equal(t, OperatorRevoked, in.State)
	assert.NotEmpty(t, in.CACert)
	assert.Equal(t, "last policy of op-a", in.LastPolicy)
	assert.Equal(t, controlapi.SenderRevoked, f.policy("op-central").Senders[0].State)
	_, err = f.DeleteOperator(f.ctx, f.acme, "op-central", RemovalRequest{})
	require.NoError(t, err, "nothing depends on it any more")
}

func TestDeleteRevokedOperator(t *testing.T) {
	f := newFixture(t)
	f.central("op-central")
	f.regional("op-a", "op-central")
	first, err := f.RevokeOperator(f.ctx, f.acme, "op-central", RemovalRequest{Force: true})
	require.NoError(t, err)
	second, err := f.DeleteOperator(f.ctx, f.acme, "op-central", RemovalRequest{})
	require.NoError(t, err)
	assert.Equal(t, first, second)
	_, err = f.RevokeOperator(f.ctx, f.acme, "op-a", RemovalRequest{})
	require.NoError(t, err, "its destination is gone")
}
