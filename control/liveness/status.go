// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package liveness

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// SenderStatus is a sender with what its operator reported of it: requests since
// the instances started, never content. Serial, IssuedAt, NotAfter and RenewBy are
// of its newest leaf.
type SenderStatus struct {
	operators.Sender
	Status         string                  `json:"status"`
	LastAcceptedAt *time.Time              `json:"lastAcceptedAt,omitempty"`
	Accepted       controlapi.SignalCounts `json:"accepted"`
	Refused        map[string]int64        `json:"refused,omitempty"`
	Serial         string                  `json:"serial,omitempty"`
	IssuedAt       *time.Time              `json:"issuedAt,omitempty"`
	NotAfter       *time.Time              `json:"notAfter,omitempty"`
	RenewBy        *time.Time              `json:"renewBy,omitempty"`
	// RenewalRefused is why its last renewal was refused, "" when it was not.
	RenewalRefused   string     `json:"renewalRefused,omitempty"`
	RenewalRefusedAt *time.Time `json:"renewalRefusedAt,omitempty"`

	refusedLast bool
}

// defaultSilentAfter is for senders that are operators.
const defaultSilentAfter = 5 * time.Minute

// Describe tells how each of senders stands, in their order.
func (t *Tracker) Describe(ctx context.Context, senders []operators.Sender) ([]SenderStatus, error) {
	out := make([]SenderStatus, len(senders))
	err := t.store.View(ctx, func(tx *ledger.Tx) error {
		seen := observers{tx: tx, operators: map[string]*observed{}, silences: map[string]map[string]time.Duration{}}
		for i, sender := range senders {
			var err error
			if out[i], err = seen.describe(sender); err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}

// EachSender tells how every sender of every organisation stands.
func EachSender(tx *ledger.Tx, fn func(SenderStatus)) error {
	senders, err := operators.AllSenders(tx)
	if err != nil {
		return err
	}
	seen := observers{tx: tx, operators: map[string]*observed{}, silences: map[string]map[string]time.Duration{}}
	for _, sender := range senders {
		status, err := seen.describe(sender)
		if err != nil {
			return err
		}
		fn(status)
	}
	return nil
}

// observers read what is known of operators and organisations once each.
type observers struct {
	tx        *ledger.Tx
	operators map[string]*observed                // by operator id
	silences  map[string]map[string]time.Duration // by organisation and cluster
}

func (s *observers) describe(sender operators.Sender) (status SenderStatus, err error) {
	silentAfter := s.silences[sender.OrgID]
	if silentAfter == nil {
		if silentAfter, err = silences(s.tx, sender.OrgID); err != nil {
			return status, fmt.Errorf("reading clusters: %w", err)
		}
		s.silences[sender.OrgID] = silentAfter
	}
	o := s.operators[sender.OperatorID]
	if o == nil {
		if o, err = observe(s.tx, sender.OperatorID); err != nil {
			return status, fmt.Errorf("reading what %s reported: %w", sender.OperatorID, err)
		}
		s.operators[sender.OperatorID] = o
	}
	silent, ok := silentAfter[sender.HolderID]
	if !ok {
		silent = defaultSilentAfter
	}
	return o.describe(sender, silent, s.tx.Now()), nil
}

// observed is what is known of one operator's senders.
type observed struct {
	reporting bool
	reports   map[string]*SenderStatus // by sender name
	leaves    map[string]leaf          // the newest, by sender name
}

type leaf struct {
	serial                    string
	issued, notAfter, renewBy time.Time
	refused                   string     // why its last renewal was refused
	refusedAt                 *time.Time // nil when it was not
}

// renewalFails is the contract's "renewal failing", section 3.
func (l leaf) renewalFails(now time.Time) bool {
	return now.After(l.renewBy) || l.refused != ""
}

func (o *observed) describe(sender operators.Sender, silentAfter time.Duration, now time.Time) SenderStatus {
	s := SenderStatus{}
	if reported := o.reports[sender.Name]; reported != nil {
		s = *reported
	}
	s.Sender = sender
	newest, enrolled := o.leaves[sender.Name]
	if enrolled {
		s.Serial, s.IssuedAt, s.NotAfter, s.RenewBy = newest.serial, &newest.issued, &newest.notAfter, &newest.renewBy
		s.RenewalRefused, s.RenewalRefusedAt = newest.refused, newest.refusedAt
	}
	switch {
	case sender.State != controlapi.SenderAllowed:
		s.Status = StatusRevoked
	case !o.reporting:
		s.Status = StatusNotMeasured
	case enrolled && now.After(newest.notAfter):
		s.Status = StatusExpired
	case s.LastAcceptedAt != nil && now.Sub(*s.LastAcceptedAt) > silentAfter:
		s.Status = StatusSilent
	case s.refusedLast:
		s.Status = StatusRefused
	case enrolled && newest.renewalFails(now):
		s.Status = StatusRenewalFailing
	case !enrolled: // also one that was let in again and has yet to enrol
		s.Status = StatusNotEnrolled
	case s.LastAcceptedAt == nil:
		s.Status = StatusWaiting
	default:
		s.Status = StatusActive
	}
	return s
}

func observe(tx *ledger.Tx, operatorID string) (*observed, error) {
	o := &observed{reports: map[string]*SenderStatus{}, leaves: map[string]leaf{}}
	err := each(tx, func(scan func(...any) error) error {
		var text string
		var reportedAt int64
		if err := scan(&text, &reportedAt); err != nil {
			return err
		}
		var report controlapi.Report
		if err := json.Unmarshal([]byte(text), &report); err != nil {
			return err
		}
		o.reporting = o.reporting || tx.Now().Sub(time.Unix(reportedAt, 0)) <= OnlineFor
		for _, s := range report.Senders {
			o.add(s)
		}
		return nil
	}, `SELECT report, reported_at FROM reports WHERE operator_id = $1`, operatorID)
	if err != nil {
		return nil, err
	}
	return o, each(tx, func(scan func(...any) error) error {
		var name string
		var l leaf
		var issued, notAfter, renewBy int64
		var refusedAt sql.NullInt64
		if err := scan(&name, &l.serial, &issued, &notAfter, &renewBy, &l.refused, &refusedAt); err != nil {
			return err
		}
		l.refusedAt = unixOf(refusedAt)
		l.issued, l.notAfter, l.renewBy = time.Unix(issued, 0).UTC(), time.Unix(notAfter, 0).UTC(), time.Unix(renewBy, 0).UTC()
		o.leaves[name] = l
		return nil
	}, `SELECT e.holder, e.serial, e.issued_at, e.not_after, e.renew_by, COALESCE(f.reason, ''), f.at
		FROM entries e LEFT JOIN refused_renewals f ON f.operator_id = e.operator_id AND f.serial = e.serial
		WHERE e.operator_id = $1 AND e.role = 'sender' AND e.superseded_at IS NULL AND e.revoked_at IS NULL`, operatorID)
}

// add sums what one instance says of a sender with what the others said.
func (o *observed) add(r controlapi.ReportSender) {
	s := o.reports[r.Name]
	if s == nil {
		s = &SenderStatus{}
		o.reports[r.Name] = s
	}
	s.Accepted.Traces += r.Accepted.Traces
	s.Accepted.Metrics += r.Accepted.Metrics
	s.Accepted.Logs += r.Accepted.Logs
	for reason, n := range r.Refused {
		if s.Refused == nil {
			s.Refused = map[string]int64{}
		}
		s.Refused[reason] += n
	}
	if r.LastAcceptedAt != nil && (s.LastAcceptedAt == nil || r.LastAcceptedAt.After(*s.LastAcceptedAt)) {
		at := controlapi.Seconds(*r.LastAcceptedAt)
		s.LastAcceptedAt = &at
	}
	s.refusedLast = s.refusedLast || r.FirstRefusedAtMs > 0 && r.FirstRefusedAtMs > r.LastAcceptedAtMs
}

// silences are the silentAfter of an organisation's clusters.
func silences(tx *ledger.Tx, orgID string) (map[string]time.Duration, error) {
	out := map[string]time.Duration{}
	err := each(tx, func(scan func(...any) error) error {
		var id string
		var seconds int64
		if err := scan(&id, &seconds); err != nil {
			return err
		}
		out[id] = time.Duration(seconds) * time.Second
		return nil
	}, `SELECT id, silent_after FROM clusters WHERE org_id = $1`, orgID)
	return out, err
}

// each runs fn for every row of a query.
func each(tx *ledger.Tx, fn func(scan func(...any) error) error, query string, args ...any) error {
	rows, err := tx.Query(query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // rows.Err tells
	for rows.Next() {
		if err := fn(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}
