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
	Operators   map[string]int `json:"operators"` // by health: online, offline, unknown, and revoked
	Clusters    map[string]int `json:"clusters"`  // by state
	Senders     map[string]int `json:"senders"`   // by status
	Attention   []Attention    `json:"attention"`
	NextRenewal *Renewal       `json:"nextRenewal,omitempty"`
	EndingSoon  int            `json:"endingSoon"` // leaves that end within seven days
}

// Kinds of attention, in the order in which they are listed.
const (
	AttentionUnconfirmed = "unconfirmed" // a revocation
	AttentionRecovering  = "recovering"  // an operator, since a restore
	AttentionLost        = "sender_lost" // in a restore
	AttentionOperator    = "operator_offline"
	AttentionSilent      = "sender_silent"
	AttentionExpired     = "sender_expired"
	AttentionRenewal     = "renewal_failing"
	AttentionRefused     = "sender_refused"
)

// Attention is one thing that somebody should look at: what, since when, why in
// words, and the command that shows more.
type Attention struct {
	Kind    string     `json:"kind"`
	Object  string     `json:"object"`
	Since   *time.Time `json:"since,omitempty"`
	Why     string     `json:"why"`
	Command string     `json:"command"`
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
	s := &Summary{At: t.store.Now(), Operators: map[string]int{}, Clusters: map[string]int{}, Senders: map[string]int{}, Attention: []Attention{}}
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
	statuses, err := t.Describe(ctx, a.OrgID, senders)
	if err != nil {
		return nil, err
	}
	if err := t.readLedger(ctx, a.OrgID, s); err != nil {
		return nil, err
	}
	beats, err := t.Last(ctx, a.OrgID)
	if err != nil {
		return nil, err
	}
	s.addOperators(t, ops, statuses, beats)
	s.addSenders(statuses)
	return s, nil
}

// Unconfirmed selects, from FROM on, the instances (i) that have not confirmed a
// receipt (r) that still counts. It does not once its sender is allowed again, or
// was cut off anew, which has a receipt of its own. The receipt of a certificate
// counts however its sender stands: a restore does not bring the certificate back.
const Unconfirmed = ` FROM receipts r JOIN receipt_instances i ON i.receipt_id = r.id
	WHERE i.applied_at_ms IS NULL AND (r.subject LIKE 'certificate %' OR NOT EXISTS (SELECT 1 FROM senders s
		WHERE s.operator_id = i.operator_id AND s.name = i.sender AND (s.state = 'allowed' OR s.receipt_id <> r.id)))`

// readLedger adds unconfirmed revocations and what renews and ends next.
func (t *Tracker) readLedger(ctx context.Context, orgID string, s *Summary) error {
	return t.store.View(ctx, func(tx *ledger.Tx) error {
		s.Attention = s.Attention[:0]
		err := each(tx, func(scan func(...any) error) error {
			var id, subject string
			var at int64
			var waiting int
			if err := scan(&id, &subject, &at, &waiting); err != nil {
				return err
			}
			since := time.UnixMilli(at).UTC().Truncate(time.Second)
			s.Attention = append(s.Attention, Attention{
				Kind: AttentionUnconfirmed, Object: id, Since: &since,
				Why:     fmt.Sprintf("the revocation of %s is not confirmed by %s", subject, instances(waiting)),
				Command: "ikhnos receipt get " + id,
			})
			return nil
		}, `SELECT r.id, r.subject, r.committed_at_ms, COUNT(*)`+Unconfirmed+` AND r.org_id = $1
			GROUP BY r.id, r.subject, r.committed_at_ms ORDER BY r.committed_at_ms DESC`, orgID)
		if err != nil {
			return fmt.Errorf("reading unconfirmed receipts: %w", err)
		}
		if err := readRecovery(tx, orgID, s); err != nil {
			return fmt.Errorf("reading what a restore has left: %w", err)
		}
		return readEnds(tx, orgID, s)
	})
}

func instances(n int) string {
	if n == 1 {
		return "1 instance"
	}
	return fmt.Sprintf("%d instances", n)
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

// addOperators counts operators; one that is offline is one line, with what
// hangs on it.
func (s *Summary) addOperators(t *Tracker, ops []operators.Operator, statuses []SenderStatus, beats map[string]Beats) {
	behind := map[string]int{}
	for _, sender := range statuses {
		behind[sender.OperatorID]++
	}
	for i := range ops {
		op := &ops[i]
		t.Judge(op, beats[op.ID])
		if op.State == operators.OperatorRevoked {
			s.Operators[StatusRevoked]++
			continue
		}
		s.Operators[op.Health.State]++
		if op.Health.State == StateOffline {
			s.Attention = append(s.Attention, Attention{
				Kind: AttentionOperator, Object: op.ID, Since: op.Health.LastSeenAt,
				Why:     fmt.Sprintf("no heartbeat for more than 180 s; its %d senders are not measured", behind[op.ID]),
				Command: "ikhnos operator get " + op.ID,
			})
		}
	}
}

// addSenders counts senders and lists those in need, by what is wrong.
func (s *Summary) addSenders(statuses []SenderStatus) {
	kinds := []struct{ status, kind, why string }{
		{StatusSilent, AttentionSilent, "was accepted before, and is quiet for longer than its silentAfter"},
		{StatusExpired, AttentionExpired, "its newest certificate has ended"},
		{StatusRenewalFailing, AttentionRenewal, "its certificate is past renewBy and has no successor"},
		{StatusRefused, AttentionRefused, "its last requests were refused"},
	}
	for _, sender := range statuses {
		s.Senders[sender.Status]++
	}
	for _, kind := range kinds {
		for _, sender := range statuses {
			if sender.Status != kind.status {
				continue
			}
			s.Attention = append(s.Attention, Attention{
				Kind: kind.kind, Object: sender.Name, Since: sender.LastAcceptedAt, Why: kind.why,
				Command: "ikhnos sender get " + sender.HolderID + " --operator " + sender.OperatorID,
			})
		}
	}
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
