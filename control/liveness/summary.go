// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package liveness

import (
	"context"
	"fmt"
	"time"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/operators"
)

// Summary is what needs attention in an organisation, and how much there is of
// everything.
type Summary struct {
	At          time.Time      `json:"at"`
	Operators   map[string]int `json:"operators"` // by status
	Clusters    map[string]int `json:"clusters"`  // by state
	Senders     map[string]int `json:"senders"`   // by status
	Attention   []Attention    `json:"attention"`
	NextRenewal *Renewal       `json:"nextRenewal,omitempty"`
	EndingSoon  int            `json:"endingSoon"` // leaves that end within seven days
	NextCAEnd   *time.Time     `json:"nextCaEnd,omitempty"`
	Server      ServerFacts    `json:"server"`
}

// ServerFacts is what the server knows of itself, with the time of its last
// backup. PolicyConfirmed of PolicyOperators operators that report run the policy
// that is theirs now.
type ServerFacts struct {
	Version         string     `json:"version"`
	KeysSealed      bool       `json:"keysSealed"`
	CertificateEnds *time.Time `json:"certificateEnds,omitempty"`
	LastBackupAt    *time.Time `json:"lastBackupAt,omitempty"`
	PolicyConfirmed int        `json:"policyConfirmed"`
	PolicyOperators int        `json:"policyOperators"`
}

// Renewal is the leaf that is renewed next.
type Renewal struct {
	OperatorID string    `json:"operatorId"`
	Holder     string    `json:"holder"`
	RenewAfter time.Time `json:"renewAfter"`
}

const (
	endingSoon = 7 * 24 * time.Hour
	pageSize   = 500
)

// Directory lists what belongs to an actor's organisation; *operators.Service
// does.
type Directory interface {
	ListOperators(ctx context.Context, a operators.Actor, f operators.OperatorFilter, p operators.Page) (operators.List[operators.Operator], error)
	ListClusters(ctx context.Context, a operators.Actor, f operators.ClusterFilter, p operators.Page) (operators.List[operators.Cluster], error)
	FindSenders(ctx context.Context, a operators.Actor, f operators.SenderFilter, p operators.Page) (operators.List[operators.Sender], error)
}

// Summarize reads the summary of the actor's organisation.
func (t *Tracker) Summarize(ctx context.Context, a operators.Actor, dir Directory) (*Summary, error) {
	s := &Summary{At: t.store.Now(), Clusters: map[string]int{}, Server: t.facts()}
	clusters, err := all(func(p operators.Page) (operators.List[operators.Cluster], error) {
		return dir.ListClusters(ctx, a, operators.ClusterFilter{}, p)
	})
	if err != nil {
		return nil, err
	}
	for _, c := range clusters {
		s.Clusters[string(c.State)]++
	}
	ops, err := all(func(p operators.Page) (operators.List[operators.Operator], error) {
		return dir.ListOperators(ctx, a, operators.OperatorFilter{}, p)
	})
	if err != nil {
		return nil, err
	}
	senders, err := all(func(p operators.Page) (operators.List[operators.Sender], error) {
		return dir.FindSenders(ctx, a, operators.SenderFilter{}, p)
	})
	if err != nil {
		return nil, err
	}
	statuses, err := t.Describe(ctx, senders)
	if err != nil {
		return nil, err
	}
	return s, t.store.View(ctx, func(tx *ledger.Tx) error {
		s.Operators, s.Senders, s.Attention = map[string]int{}, map[string]int{}, []Attention{}
		return s.read(tx, a.OrgID, ops, statuses)
	})
}

// read fills in what stands in the database, in the order in which people should
// look at it.
func (s *Summary) read(tx *ledger.Tx, orgID string, ops []operators.Operator, statuses []SenderStatus) error {
	known, err := evidenceOf(tx, orgID)
	if err != nil {
		return fmt.Errorf("reading what is known of operators: %w", err)
	}
	if err := s.addUnconfirmed(tx, orgID); err != nil {
		return fmt.Errorf("reading unconfirmed receipts: %w", err)
	}
	if err := readRecovery(tx, orgID, s); err != nil {
		return fmt.Errorf("reading what a restore has left: %w", err)
	}
	for i := range ops {
		known[ops[i].ID].judge(&ops[i], tx.Now())
		s.Operators[ops[i].Status]++
	}
	s.addOffline(ops, statuses, known)
	s.addSenders(statuses)
	s.addReceivers(ops)
	if err := s.addAuthorities(tx, orgID); err != nil {
		return fmt.Errorf("reading when CAs end: %w", err)
	}
	if err := s.addServer(tx, orgID); err != nil {
		return fmt.Errorf("reading the server's own state: %w", err)
	}
	s.addPending()
	return readEnds(tx, orgID, s)
}

// unconfirmed selects, from FROM on, the instances (i) that have not confirmed a
// receipt (r) that still counts; $1 is now in Unix seconds. It does not once its
// sender is allowed again, or was cut off anew, which has a receipt of its own. The
// receipt of a certificate counts however its sender stands: a restore does not
// bring the certificate back. Where no instance is known, it counts until a leaf
// that lived when it was committed has ended.
const unconfirmed = ` FROM receipts r JOIN receipt_instances i ON i.receipt_id = r.id
	WHERE i.applied_at_ms IS NULL AND (r.subject LIKE 'certificate %' OR NOT EXISTS (SELECT 1 FROM senders s
		WHERE s.operator_id = i.operator_id AND s.name = i.sender AND (s.state = 'allowed' OR s.receipt_id <> r.id)))
	AND (i.instance <> '` + operators.AnyInstance + `' OR EXISTS (SELECT 1 FROM entries e
		WHERE e.operator_id = i.operator_id AND e.role = 'sender' AND (i.sender = '' OR e.holder = i.sender)
			AND e.not_after >= $1 AND e.issued_at <= r.committed_at_ms / 1000))`

// UnconfirmedInstances is how many known instances have not confirmed a revocation,
// each counted for every one that it has not.
func UnconfirmedInstances(tx *ledger.Tx) (n int64, err error) {
	err = tx.QueryRow(`SELECT COUNT(*)`+unconfirmed+` AND i.instance <> '`+operators.AnyInstance+`'`, tx.Now().Unix()).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("counting who has not confirmed: %w", err)
	}
	return n, nil
}

func readEnds(tx *ledger.Tx, orgID string, s *Summary) error {
	const newest = ` FROM entries e JOIN operators o ON o.id = e.operator_id
		WHERE o.org_id = $1 AND o.state = 'active' AND e.superseded_at IS NULL AND e.revoked_at IS NULL AND e.not_after >= $2`
	now := tx.Now()
	err := tx.QueryRow(`SELECT COUNT(*)`+newest+` AND e.not_after < $3`, orgID, now.Unix(), now.Add(endingSoon).Unix()).Scan(&s.EndingSoon)
	if err != nil {
		return fmt.Errorf("counting leaves: %w", err)
	}
	s.NextRenewal = nil
	err = each(tx, func(scan func(...any) error) error {
		var r Renewal
		var at int64
		if err := scan(&r.OperatorID, &r.Holder, &at); err != nil {
			return err
		}
		r.RenewAfter = time.Unix(at, 0).UTC()
		s.NextRenewal = &r
		return nil
	}, `SELECT e.operator_id, e.holder, e.renew_after`+newest+` AND e.renew_after >= $2 ORDER BY e.renew_after LIMIT 1`, orgID, now.Unix())
	if err != nil {
		return fmt.Errorf("reading the next renewal: %w", err)
	}
	return nil
}

// all reads every page of a list.
func all[T any](list func(operators.Page) (operators.List[T], error)) ([]T, error) {
	var items []T
	page := operators.Page{Limit: pageSize}
	for {
		part, err := list(page)
		if err != nil {
			return nil, err
		}
		items = append(items, part.Items...)
		if part.NextCursor == "" {
			return items, nil
		}
		page.Cursor = part.NextCursor
	}
}
