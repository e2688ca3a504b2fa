// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package operators

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ikhnos/continuum/control/audit"
	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/pki"
	"github.com/ikhnos/continuum/internal/controlapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock is a time that a test moves.
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

// lastWords signs nothing, and tells whether the key still existed when it could
// have.
type lastWords struct{ err error }

func (l *lastWords) Last(tx *ledger.Tx, operatorID string) (string, []byte, error) {
	in, err := ReadPolicyInput(tx, operatorID)
	if err != nil {
		return "", nil, err
	}
	if len(in.CAKey) == 0 || in.State != OperatorRevoked {
		return "", nil, errors.New("called at the wrong moment")
	}
	return "last policy of " + operatorID, []byte("last crl"), l.err
}

// database names the database of a fixture: SQLite in its directory, unless
// TestPostgres says otherwise.
var database = func(*testing.T) string { return "" }

// fixture is a Service on a real store, with two organisations.
type fixture struct {
	*Service
	t       *testing.T
	ctx     context.Context
	dir     string
	clock   *clock
	words   *lastWords
	acme    Actor // admin of acme
	other   Actor // admin of other
	mu      sync.Mutex
	audited []audit.Entry
	secrets []string // every secret that was handed out
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{
		t: t, ctx: t.Context(), dir: t.TempDir(), words: &lastWords{},
		clock: &clock{t: time.Date(2026, 3, 1, 12, 0, 0, 5e8, time.UTC)},
	}
	store, err := ledger.Open(f.ctx, ledger.Options{DataDir: f.dir, DatabaseURL: database(t), Now: f.clock.now, AuditSink: f.sink})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	passphrase := []byte("correct horse")
	setting, err := pki.NewSealSetting(passphrase, pki.SealCost{Time: 1, MemoryKiB: 8, Threads: 1})
	require.NoError(t, err)
	sealer, err := pki.OpenSealer(passphrase, setting)
	require.NoError(t, err)
	f.Service = New(Config{Store: store, CAs: SealedCAs{sealer}, LastWords: f.words, Now: f.clock.now})
	secret := f.keep(controlapi.NewSecret(controlapi.SecretAdmin, nil))
	created, err := f.Bootstrap(f.ctx, secret)
	require.NoError(t, err)
	require.True(t, created)
	root, err := f.Authenticate(f.ctx, secret)
	require.NoError(t, err)
	f.acme, f.other = f.org(root, "acme"), f.org(root, "other")
	f.drain()
	return f
}

// org makes an organisation and returns its admin.
func (f *fixture) org(root Actor, id string) Actor {
	org, err := f.CreateOrg(f.ctx, root, OrgRequest{ID: id, Name: "Org " + id})
	require.NoError(f.t, err)
	a, err := f.Authenticate(f.ctx, f.keep(org.AdminToken))
	require.NoError(f.t, err)
	a.RequestID, a.Address = "req-1", "192.0.2.1"
	return a
}

func (f *fixture) keep(secret string) string {
	f.secrets = append(f.secrets, secret)
	return secret
}

func (f *fixture) sink(e audit.Entry, _ time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.audited = append(f.audited, e)
}

// drain returns the audit lines since the last call.
func (f *fixture) drain() []audit.Entry {
	f.mu.Lock()
	defer f.mu.Unlock()
	lines := f.audited
	f.audited = nil
	return lines
}

func (f *fixture) events() []string {
	events := []string{}
	for _, e := range f.drain() {
		events = append(events, e.Event)
	}
	return events
}

// cluster registers and approves a cluster of acme.
func (f *fixture) cluster(id string, labels map[string]string) {
	f.t.Helper()
	_, err := f.CreateCluster(f.ctx, f.acme, ClusterRequest{ID: id, Labels: labels})
	require.NoError(f.t, err)
	_, err = f.ApproveCluster(f.ctx, f.acme, id)
	require.NoError(f.t, err)
}

// central makes a central operator of acme, regional one that sends to it; an
// empty destination is an endpoint.
func (f *fixture) central(id string) {
	f.t.Helper()
	_, err := f.CreateOperator(f.ctx, f.acme, OperatorRequest{ID: id, Name: "Central " + id, Role: RoleCentral})
	require.NoError(f.t, err)
}

func (f *fixture) regional(id, destination string) {
	f.t.Helper()
	_, err := f.CreateOperator(f.ctx, f.acme, regionalRequest(id, destination))
	require.NoError(f.t, err)
}

func regionalRequest(id, destination string) OperatorRequest {
	r := OperatorRequest{ID: id, Name: "Regional " + id, Labels: map[string]string{"region": "eu"}}
	r.Destination = &Destination{Kind: DestinationOTLP, Endpoint: "store.example.com:4317"}
	if destination != "" {
		r.Destination = &Destination{Kind: DestinationOperator, OperatorID: destination}
	}
	return r
}

func (f *fixture) connect(operatorID, holderID string) {
	f.t.Helper()
	_, created, err := f.ConnectSender(f.ctx, f.acme, operatorID, holderID, SenderRequest{})
	require.NoError(f.t, err)
	require.True(f.t, created)
}

func (f *fixture) mint(operatorID string, r TokenRequest) string {
	f.t.Helper()
	token, err := f.MintToken(f.ctx, f.acme, operatorID, r)
	require.NoError(f.t, err)
	return f.keep(token.Token)
}

// issue enters a leaf for a token, under a key of its own.
func (f *fixture) issue(token string) (ledger.Issuance, error) {
	return f.store.Issue(f.ctx, ledger.IssueRequest{
		TokenHash: controlapi.HashSecret(token), SPKI: randomHex(), Lifetime: 30 * 24 * time.Hour,
	})
}

// leaf enrols a connected sender.
func (f *fixture) leaf(operatorID, holderID string) ledger.Entry {
	f.t.Helper()
	issued, err := f.issue(f.mint(operatorID, TokenRequest{Role: controlapi.RoleSender, Sender: holderID}))
	require.NoError(f.t, err)
	return issued.Entry
}

// renew enters a leaf renewed from e.
func (f *fixture) renew(e ledger.Entry) (ledger.Issuance, error) {
	return f.store.Issue(f.ctx, ledger.IssueRequest{
		Proof: &ledger.Proof{
			OperatorID: e.OperatorID, Serial: e.Serial, SPKI: e.SPKI,
			JTI: randomHex(), Expires: f.clock.now().Add(time.Minute),
		},
		SPKI: randomHex(), Lifetime: 30 * 24 * time.Hour,
	})
}

func (f *fixture) state(e ledger.Entry) string {
	f.t.Helper()
	var state string
	require.NoError(f.t, f.store.View(f.ctx, func(tx *ledger.Tx) error {
		now, err := tx.Entry(e.OperatorID, e.Serial)
		state = now.State
		return err
	}))
	return state
}

func (f *fixture) policy(operatorID string) PolicyInput {
	f.t.Helper()
	var in PolicyInput
	require.NoError(f.t, f.store.View(f.ctx, func(tx *ledger.Tx) (err error) {
		in, err = ReadPolicyInput(tx, operatorID)
		return err
	}))
	return in
}

// number is the change number that an operator's policy has now.
func (f *fixture) number(operatorID string) int64 { return f.policy(operatorID).Version.Number }

// report enters a reporting instance of an operator.
func (f *fixture) report(operatorID, instance string, at time.Time) {
	f.t.Helper()
	require.NoError(f.t, f.store.Update(f.ctx, func(tx *ledger.Tx) error {
		_, err := tx.Exec(`INSERT INTO reports (operator_id, instance, epoch, number, report, reported_at)
			VALUES ($1, $2, 1, 1, '{}', $3)`, operatorID, instance, at.Unix())
		return err
	}))
}

func randomHex() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}

// requireReason checks that an error is the problem of a reason.
func requireReason(t *testing.T, want controlapi.Reason, err error) *controlapi.Problem {
	t.Helper()
	var p *controlapi.Problem
	require.ErrorAs(t, err, &p)
	require.Equal(t, want, p.Reason, "%s", asJSON(p))
	return p
}

func asJSON(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

func fields(p *controlapi.Problem) []string {
	var names []string
	for _, e := range p.Errors {
		names = append(names, e.Field)
	}
	return names
}
