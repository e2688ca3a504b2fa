// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledgertest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"fmt"
	"math/big"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/ledger"
)

// Org is the organisation of all fixtures.
const Org = "acme"

// Epoch is when the fixtures' clock starts.
var Epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// Clock is a clock that tests set.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that stands at Epoch.
func NewClock() *Clock { return &Clock{now: Epoch} }

// Now is the clock's time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock on.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Fixture fills a store with what issuing needs, by plain SQL.
type Fixture struct {
	tb    testing.TB
	Store *ledger.Store
	Clock *Clock
	next  int
}

// New returns a fixture over an open store.
func New(tb testing.TB, s *ledger.Store, c *Clock) *Fixture {
	f := &Fixture{tb: tb, Store: s, Clock: c}
	f.Exec(`INSERT INTO organisations (id, name, created_at) VALUES ($1, $1, $2) ON CONFLICT DO NOTHING`, Org, c.Now().Unix())
	return f
}

// Exec runs one statement in an Update.
func (f *Fixture) Exec(query string, args ...any) {
	f.tb.Helper()
	f.Update(func(tx *ledger.Tx) error {
		_, err := tx.Exec(query, args...)
		return err
	})
}

// Update runs an Update that must succeed.
func (f *Fixture) Update(fn func(*ledger.Tx) error) {
	f.tb.Helper()
	require.NoError(f.tb, f.Store.Update(context.Background(), fn))
}

// View runs a View that must succeed.
func (f *Fixture) View(fn func(*ledger.Tx) error) {
	f.tb.Helper()
	require.NoError(f.tb, f.Store.View(context.Background(), fn))
}

// Operator adds an active operator whose CA ends after life.
func (f *Fixture) Operator(id string, life time.Duration) {
	f.tb.Helper()
	f.OperatorWithCA(id, caCert(f.tb, id, f.Clock.Now(), life), []byte("sealed "+id))
}

// OperatorWithCA adds an active operator with that CA certificate (DER) and
// sealed key.
func (f *Fixture) OperatorWithCA(id string, cert, sealedKey []byte) {
	f.tb.Helper()
	f.Update(func(tx *ledger.Tx) error {
		_, err := tx.Exec(`INSERT INTO operators (id, org_id, name, role, destination_kind, destination_endpoint,
			destination_operator, labels, source_clusters, address, exposure, heartbeat, last_beat, state,
			client_ca_cert, client_ca_key, client_ca_spki, last_policy, change_number, created_at)
			VALUES ($1, $2, $1, 'regional', '', '', '', '{}', '[]', '', '', 'off', '', 'active', $3, $4, '', '', 0, $5)`,
			id, Org, cert, sealedKey, f.Clock.Now().Unix())
		if err != nil {
			return err
		}
		return tx.RecordCA(id, cert)
	})
}

// Sender adds an approved cluster, if need be, and connects it to an operator.
func (f *Fixture) Sender(operatorID, clusterID string) {
	f.tb.Helper()
	f.Exec(`INSERT INTO clusters (org_id, id, kind, labels, silent_after, state, created_at, created_by)
		VALUES ($1, $2, 'host', '{}', 0, 'approved', 0, '') ON CONFLICT DO NOTHING`, Org, clusterID)
	f.Exec(`INSERT INTO senders (operator_id, holder_id, name, kind, org_id, state, since_epoch, since_number, address,
		replaced_serials, receipt_id, created_at) VALUES ($1, $2, $3, 'cluster', $4, 'allowed', 1, 0, '', '[]', '', 0)`,
		operatorID, clusterID, operatorID+"-export-"+clusterID, Org)
}

// Token mints an enrolment token of one hour and returns its hash.
func (f *Fixture) Token(operatorID, role, holderID string) []byte {
	f.tb.Helper()
	f.next++
	id := fmt.Sprintf("tok-%d", f.next)
	hash := sha256.Sum256([]byte(id))
	f.Update(func(tx *ledger.Tx) error {
		v, err := tx.Version()
		if err != nil {
			return err
		}
		_, err = tx.Exec(`INSERT INTO enrollment_tokens (id, org_id, operator_id, role, holder_id, secret_hash, epoch,
			created_by, created_at, expires_at, state, spent_spki) VALUES ($1, $2, $3, $4, $5, $6, $7, 'ann', 0, $8, 'open', '')`,
			id, Org, operatorID, role, holderID, hash[:], v.Epoch, f.Clock.Now().Add(time.Hour).Unix())
		return err
	})
	return hash[:]
}

// Key stands for a public key: the hash of a name.
func Key(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])
}

// Enroll asks for a leaf of 30 days with a token.
func (f *Fixture) Enroll(token []byte, key string) (ledger.Issuance, error) {
	return f.Store.Issue(context.Background(), ledger.IssueRequest{
		TokenHash: token, SPKI: Key(key), Lifetime: 30 * 24 * time.Hour, RequestID: "r", Address: "192.0.2.1",
	})
}

// Renew asks for a leaf of 30 days by a fresh proof of holding e.
func (f *Fixture) Renew(e ledger.Entry, key string) (ledger.Issuance, error) {
	return f.Store.Issue(context.Background(), ledger.IssueRequest{
		Proof: f.Proof(e), SPKI: Key(key), Lifetime: 30 * 24 * time.Hour, RequestID: "r", Address: "192.0.2.1",
	})
}

// Proof is a fresh proof of holding e.
func (f *Fixture) Proof(e ledger.Entry) *ledger.Proof {
	return &ledger.Proof{
		OperatorID: e.OperatorID, Serial: e.Serial, SPKI: e.SPKI, JTI: rand.Text(), Expires: f.Clock.Now().Add(30 * time.Second),
	}
}

// MustEnroll connects nothing: it mints a token and enrols with it.
func (f *Fixture) MustEnroll(operatorID, role, holderID, key string) ledger.Entry {
	f.tb.Helper()
	out, err := f.Enroll(f.Token(operatorID, role, holderID), key)
	require.NoError(f.tb, err)
	return out.Entry
}

// Entry reads one entry.
func (f *Fixture) Entry(operatorID, serial string) (e ledger.Entry) {
	f.tb.Helper()
	f.View(func(tx *ledger.Tx) (err error) {
		e, err = tx.Entry(operatorID, serial)
		return err
	})
	return e
}

// Audited counts the audit lines of an event.
func (f *Fixture) Audited(event string) (n int) {
	f.tb.Helper()
	f.View(func(tx *ledger.Tx) error {
		return tx.QueryRow(`SELECT COUNT(*) FROM audit WHERE event = $1`, event).Scan(&n)
	})
	return n
}

// Count counts the entries of an operator.
func (f *Fixture) Count(operatorID string) (n int) {
	f.tb.Helper()
	f.View(func(tx *ledger.Tx) error {
		return tx.QueryRow(`SELECT COUNT(*) FROM entries WHERE operator_id = $1`, operatorID).Scan(&n)
	})
	return n
}

func caCert(tb testing.TB, name string, now time.Time, life time.Duration) []byte {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(tb, err)
	t := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(life), KeyUsage: x509.KeyUsageCertSign, SubjectKeyId: []byte{1, 2, 3},
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	require.NoError(tb, err)
	return der
}
