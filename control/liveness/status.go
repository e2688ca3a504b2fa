// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package liveness

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// Words for the standing of a sender, the worst first: one sender has one word.
const (
	StatusRevoked        = "revoked"         // denied, for good or on hold
	StatusNotMeasured    = "not_measured"    // its operator does not report
	StatusExpired        = "expired"         // its newest leaf has ended
	StatusSilent         = "silent"          // was accepted, and not for longer than silentAfter
	StatusRefused        = "refused"         // its last requests were refused
	StatusRenewalFailing = "renewal_failing" // after renewBy without a newer leaf
	StatusWaiting        = "waiting"         // enrolled, nothing accepted yet
	StatusNotEnrolled    = "not_enrolled"    // allowed, no leaf yet
	StatusActive         = "active"
)

// Statuses are all words for a sender, the worst first.
var Statuses = []string{StatusRevoked, StatusNotMeasured, StatusExpired, StatusSilent, StatusRefused,
	StatusRenewalFailing, StatusWaiting, StatusNotEnrolled, StatusActive}

// SenderStatus is a sender with what its operator reported of it: requests since
// the instances started, never content. NotAfter and RenewBy are of its newest
// leaf.
type SenderStatus struct {
	operators.Sender
	Status         string                  `json:"status"`
	LastAcceptedAt *time.Time              `json:"lastAcceptedAt,omitempty"`
	Accepted       controlapi.SignalCounts `json:"accepted"`
	Refused        map[string]int64        `json:"refused,omitempty"`
	Serial         string                  `json:"serial,omitempty"`
	NotAfter       *time.Time              `json:"notAfter,omitempty"`
	RenewBy        *time.Time              `json:"renewBy,omitempty"`

	refusedLast bool
}

// defaultSilentAfter is for senders that are operators.
const defaultSilentAfter = 5 * time.Minute

// Describe tells how each of senders stands, in their order. They all belong to
// orgID.
func (t *Tracker) Describe(ctx context.Context, orgID string, senders []operators.Sender) ([]SenderStatus, error) {
	out := make([]SenderStatus, len(senders))
	err := t.store.View(ctx, func(tx *ledger.Tx) error {
		silentAfter, err := silences(tx, orgID)
		if err != nil {
			return fmt.Errorf("reading clusters: %w", err)
		}
		seen := map[string]*observed{} // by operator id
		for i, sender := range senders {
			o := seen[sender.OperatorID]
			if o == nil {
				if o, err = observe(tx, sender.OperatorID); err != nil {
					return fmt.Errorf("reading what %s reported: %w", sender.OperatorID, err)
				}
				seen[sender.OperatorID] = o
			}
			silent, ok := silentAfter[sender.HolderID]
			if !ok {
				silent = defaultSilentAfter
			}
			out[i] = o.describe(sender, silent, tx.Now())
		}
		return nil
	})
	return out, err
}

// observed is what is known of one operator's senders.
type observed struct {
	reporting bool
	reports   map[string]*SenderStatus // by sender name
	leaves    map[string]leaf          // the newest, by sender name
}

type leaf struct {
	serial            string
	notAfter, renewBy time.Time
}

func (o *observed) describe(sender operators.Sender, silentAfter time.Duration, now time.Time) SenderStatus {
	s := SenderStatus{}
	if reported := o.reports[sender.Name]; reported != nil {
		s = *reported
	}
	s.Sender = sender
	newest, enrolled := o.leaves[sender.Name]
	if enrolled {
		s.Serial, s.NotAfter, s.RenewBy = newest.serial, &newest.notAfter, &newest.renewBy
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
	case enrolled && now.After(newest.renewBy):
		s.Status = StatusRenewalFailing
	case !enrolled && s.LastAcceptedAt == nil:
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
		var notAfter, renewBy int64
		if err := scan(&name, &l.serial, &notAfter, &renewBy); err != nil {
			return err
		}
		l.notAfter, l.renewBy = time.Unix(notAfter, 0).UTC(), time.Unix(renewBy, 0).UTC()
		o.leaves[name] = l
		return nil
	}, `SELECT holder, serial, not_after, renew_by FROM entries
		WHERE operator_id = $1 AND role = 'sender' AND superseded_at IS NULL AND revoked_at IS NULL`, operatorID)
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
