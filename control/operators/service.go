// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package operators

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ikhnos/continuum/control/audit"
	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// CAs makes the certificate authority of a new operator.
type CAs interface {
	// New returns the CA's certificate (DER), its sealed private key and the
	// SHA-256 of its public key in lower-case hex.
	New(operatorID string, now time.Time) (certDER, sealedKey []byte, spki string, err error)
}

// LastWords signs what a revoked operator goes on answering with, while its CA
// key still exists: the deny-all policy (compact JWS) and the last CRL (DER, valid
// to the CA's end). It reads the state that the transaction has made: the
// operator is revoked, its leaves are revoked, its change number is final.
type LastWords interface {
	Last(tx *ledger.Tx, operatorID string) (policy string, crl []byte, err error)
}

// Config is what a Service works with. Now is read where whole seconds are too
// coarse; the store has its own clock.
type Config struct {
	Store     *ledger.Store
	CAs       CAs
	LastWords LastWords
	Now       func() time.Time
}

// Service administers organisations, clusters, operators and senders. It is safe
// for concurrent use and keeps no state outside the store.
type Service struct {
	store     *ledger.Store
	cas       CAs
	lastWords LastWords
	now       func() time.Time
}

// New returns a Service.
func New(c Config) *Service {
	return &Service{store: c.Store, cas: c.CAs, lastWords: c.LastWords, now: c.Now}
}

// change is one transaction of one actor.
type change struct {
	*ledger.Tx
	actor Actor
}

// update runs fn in a durable transaction. fn may run more than once.
func (s *Service) update(ctx context.Context, a Actor, fn func(c *change) error) error {
	return s.store.Update(ctx, func(tx *ledger.Tx) error { return fn(&change{Tx: tx, actor: a}) })
}

// record writes the audit line of a change. Callers never put a secret into
// object or detail.
func (c *change) record(event, object string, detail map[string]any) error {
	return c.Audit(audit.Entry{
		OrgID: c.actor.OrgID, Actor: c.actor.Name, Event: event, Object: object, Detail: detail,
		RequestID: c.actor.RequestID, Address: c.actor.Address,
	})
}

// next draws the number of a change that the policies of the operators show.
// Empty ids are left out.
func (c *change) next(operatorIDs ...string) (controlapi.Version, error) {
	ids := make([]string, 0, len(operatorIDs))
	for _, id := range operatorIDs {
		if id != "" {
			ids = append(ids, id)
		}
	}
	v, err := c.NextVersion(ids...)
	if err != nil {
		return controlapi.Version{}, fmt.Errorf("drawing a change number: %w", err)
	}
	return controlapi.Version(v), nil
}

func problem(r controlapi.Reason, detail string) error { return controlapi.NewProblem(r, detail) }

// notFound is the one answer for what does not exist and for what belongs to
// another organisation. It names what was looked for and never which: two ids that
// nobody has are answered alike.
func notFound(what string) error {
	return problem(controlapi.ReasonNotFound, absent[what])
}

// absent says of each kind of object that there is no such one, and where to look.
var absent = map[string]string{
	whatOrg:        "There is no such organisation, or this token is not for it.",
	whatCluster:    "This organisation has no cluster of this id; GET …/clusters lists those that it has.",
	whatOperator:   "This organisation has no operator of this id; GET …/operators lists those that it has.",
	whatSender:     "No such holder is connected to such an operator; GET …/operators/{id}/senders lists who is.",
	whatEntry:      "The operator has issued no certificate of this serial; GET …/operators/{id}/certificates lists them, in lower-case hex.",
	whatToken:      "The operator has no enrolment token of this id; GET …/operators/{id}/enrollment-tokens lists them.",
	whatAdminToken: "This organisation has no admin token of this id; GET …/admin-tokens lists them.",
	whatReceipt:    "This organisation has no receipt of this id; a revocation answers with its own.",
}

// unusable reports whether an id cannot be any: PostgreSQL takes no NUL.
func unusable(id string) bool { return strings.ContainsRune(id, 0) }

// What can be looked for.
const (
	whatOrg        = "organisation"
	whatCluster    = "cluster"
	whatOperator   = "operator"
	whatSender     = "sender"
	whatEntry      = "entry"
	whatToken      = "token"
	whatAdminToken = "admin token"
	whatReceipt    = "receipt"
)

// newID returns an id that nobody can guess or choose.
func newID(prefix string) string { return prefix + strings.ToLower(rand.Text()[:12]) }

// toJSON writes a column; its inputs are maps and slices of strings, which
// always can be written.
func toJSON(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

func fromJSON(text string, v any) error {
	if err := json.Unmarshal([]byte(text), v); err != nil {
		return fmt.Errorf("reading a JSON column: %w", err)
	}
	return nil
}

// badCursor is what is said of a cursor that no list has answered.
const badCursor = "The cursor did not come from this list; begin without one."

const (
	defaultLimit = 100
	maxLimit     = 500
)

// bounds checks a page and returns its limit and the key to start after.
func (p Page) bounds() (limit int, after string, err error) {
	if p.Limit < 0 || p.Limit > maxLimit {
		return 0, "", problem(controlapi.ReasonRequestMalformed, "The parameter limit is a number from 1 to 500.")
	}
	key, err := base64.RawURLEncoding.Strict().DecodeString(p.Cursor)
	if err != nil || !utf8.Valid(key) || strings.ContainsRune(string(key), 0) {
		return 0, "", problem(controlapi.ReasonRequestMalformed, badCursor)
	}
	return orDefault(p.Limit, defaultLimit), string(key), nil
}

// listOf makes the part of a list from up to limit+1 items in the order of key.
func listOf[T any](items []T, limit int, key func(T) string) List[T] {
	if len(items) <= limit {
		return List[T]{Items: items}
	}
	items = items[:limit]
	return List[T]{
		Items:      items,
		NextCursor: base64.RawURLEncoding.EncodeToString([]byte(key(items[limit-1]))),
	}
}

// scanner is a row to read.
type scanner interface{ Scan(dest ...any) error }

// collect reads all rows of a query before anything else uses the transaction.
// The result is never nil.
func collect[T any](tx *ledger.Tx, scan func(scanner) (T, error), query string, args ...any) (items []T, err error) {
	rows, err := tx.Query(query, args...)
	if err != nil {
		return nil, fmt.Errorf("reading a list: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	items = []T{}
	for rows.Next() {
		item, err := scan(rows)
		if err != nil {
			return nil, fmt.Errorf("reading a list: %w", err)
		}
		items = append(items, item)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("reading a list: %w", err)
	}
	return items, nil
}

func scanString(r scanner) (s string, err error) {
	err = r.Scan(&s)
	return s, err
}

// moment writes a time into a sentence.
func moment(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func seconds(unix int64) time.Time { return time.Unix(unix, 0).UTC() }
