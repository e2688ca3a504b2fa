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

// settingUpFor is how long a new operator may be unheard (HS-9).
const settingUpFor = time.Hour

// Judge fills in what is computed when operators are read: health, status and
// certificates (HS-1, ST-1 to ST-4). They all belong to orgID.
func (t *Tracker) Judge(ctx context.Context, orgID string, ops ...*operators.Operator) error {
	return t.store.View(ctx, func(tx *ledger.Tx) error {
		known, err := evidenceOf(tx, orgID)
		if err != nil {
			return fmt.Errorf("reading what is known of operators: %w", err)
		}
		for _, op := range ops {
			known[op.ID].judge(op, tx.Now())
		}
		return nil
	})
}

// evidence is what stands in the database of one operator. The zero value is one
// of which nothing is known.
type evidence struct {
	lastSeen, lastReport *time.Time
	receiver, clients    leafSpan
	beat                 *controlapi.Heartbeat // nil when the last body was not one of ours
}

// leafSpan are the newest leaves of a holder or of several, by the soonest dates.
type leafSpan struct {
	notAfter, renewBy *time.Time // nil: there is no leaf
	refused           bool       // the last renewal of one of them was refused
}

func (l leafSpan) state(now time.Time) operators.CertificateWord {
	switch {
	case l.notAfter == nil:
		return operators.CertificateNone
	case now.After(*l.notAfter):
		return operators.CertificateExpired
	case now.After(*l.renewBy) || l.refused:
		return operators.CertificateRenewalFailing
	default:
		return operators.CertificateOK
	}
}

func evidenceOf(tx *ledger.Tx, orgID string) (map[string]evidence, error) {
	known := map[string]evidence{}
	err := each(tx, func(scan func(...any) error) error {
		var id, beat string
		var seen, reported sql.NullInt64
		if err := scan(&id, &seen, &beat, &reported); err != nil {
			return err
		}
		e := evidence{lastSeen: unixOf(seen), lastReport: unixOf(reported)}
		if beat != "" {
			e.beat = &controlapi.Heartbeat{}
			if err := json.Unmarshal([]byte(beat), e.beat); err != nil {
				return fmt.Errorf("reading the last heartbeat of %s: %w", id, err)
			}
		}
		known[id] = e
		return nil
	}, `SELECT o.id, o.last_seen_at, o.last_beat, (SELECT MAX(r.reported_at) FROM reports r WHERE r.operator_id = o.id)
		FROM operators o WHERE o.org_id = $1`, orgID)
	if err != nil {
		return nil, err
	}
	return known, each(tx, func(scan func(...any) error) error {
		var id, role string
		var notAfter, renewBy sql.NullInt64
		var refused int
		if err := scan(&id, &role, &notAfter, &renewBy, &refused); err != nil {
			return err
		}
		e := known[id]
		span := leafSpan{unixOf(notAfter), unixOf(renewBy), refused > 0}
		if role == ledger.RoleReceiver {
			e.receiver = span
		} else {
			e.clients = span
		}
		known[id] = e
		return nil
	}, `SELECT e.operator_id, e.role, MIN(e.not_after), MIN(e.renew_by), COUNT(f.serial)`+configuredLeaves+`
		AND o.org_id = $1 GROUP BY e.operator_id, e.role`, orgID)
}

// configuredLeaves selects, from FROM on, the newest leaf of every receiver and of
// every configured sender: one that was cut off or taken away counts no more
// (ST-2 to ST-4).
const configuredLeaves = ` FROM entries e
	JOIN operators o ON o.id = e.operator_id AND o.state = 'active'
	LEFT JOIN refused_renewals f ON f.operator_id = e.operator_id AND f.serial = e.serial
	WHERE e.superseded_at IS NULL AND e.revoked_at IS NULL AND (e.role = 'receiver' OR EXISTS (
		SELECT 1 FROM senders s WHERE s.operator_id = e.operator_id AND s.name = e.holder
		AND s.state = 'allowed' AND s.removed_at IS NULL))`

// judge fills in an operator's health, status and certificates.
func (e evidence) judge(op *operators.Operator, now time.Time) {
	op.Health = healthOf(op.HeartbeatMinted, op.State == operators.OperatorRevoked, e.lastSeen, now)
	op.Certificates = &operators.CertificateStanding{
		State: worse(e.receiver.state(now), e.clients.state(now)), ReceiverNotAfter: e.receiver.notAfter,
		ReceiverRenewBy: e.receiver.renewBy, SendersNotAfter: e.clients.notAfter,
	}
	op.Reported = e.beat
	op.Status = e.status(op, now)
}

// status takes a report of its senders for a sign of life as well as a heartbeat.
func (e evidence) status(op *operators.Operator, now time.Time) string {
	receiver, heard := e.receiver.state(now), e.lastHeard()
	switch {
	case op.State == operators.OperatorRevoked:
		return StatusRevoked
	case receiver == operators.CertificateExpired:
		return StatusExpired
	case heard != nil && now.Sub(*heard) > OnlineFor:
		return StateOffline
	case receiver == operators.CertificateRenewalFailing:
		return StatusRenewalFailing
	case heard != nil:
		return StateOnline
	case receiver == operators.CertificateNone:
		return StatusNotEnrolled
	case now.Sub(op.CreatedAt) < settingUpFor:
		return StatusSettingUp
	default:
		return StatusNotMeasured
	}
}

// lastHeard is when the operator last gave a sign of life, nil for never.
func (e evidence) lastHeard() *time.Time {
	if e.lastSeen == nil || e.lastReport != nil && e.lastReport.After(*e.lastSeen) {
		return e.lastReport
	}
	return e.lastSeen
}

// worse is the worse of two certificate words; a missing leaf counts only when
// there is no other.
func worse(a, b operators.CertificateWord) operators.CertificateWord {
	for _, word := range []operators.CertificateWord{
		operators.CertificateExpired, operators.CertificateRenewalFailing, operators.CertificateOK,
	} {
		if a == word || b == word {
			return word
		}
	}
	return operators.CertificateNone
}

func unixOf(seconds sql.NullInt64) *time.Time {
	if !seconds.Valid {
		return nil
	}
	at := time.Unix(seconds.Int64, 0).UTC()
	return &at
}
