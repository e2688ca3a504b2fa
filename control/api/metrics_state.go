// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"crypto/x509"
	"database/sql"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/liveness"
)

// scrapeTimeout bounds the reading of the database for one scrape: below the 10 s
// that Prometheus waits, so that a database that hangs costs its metrics alone.
const scrapeTimeout = 5 * time.Second

// stateCollector reads the state of the fleet from the database at each scrape,
// so that replicas agree and nothing has to be kept up to date.
type stateCollector struct {
	s                                                          *Server
	lastSeen, reporting, senderState, lastAccepted             *prometheus.Desc
	notAfter, renewBy, caNotAfter, sealed, unconfirmed, tokens *prometheus.Desc
	backup                                                     *prometheus.Desc
}

func newStateCollector(s *Server) *stateCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("ikhnos_"+name, help, labels, nil)
	}
	return &stateCollector{
		s:            s,
		lastSeen:     desc("operator_last_seen_timestamp_seconds", "Unix time of the last heartbeat.", "org", "operator"),
		reporting:    desc("operator_reporting", "1 once a heartbeat secret exists and a heartbeat has arrived.", "org", "operator"),
		senderState:  desc("sender_state", "1 for the present state of a sender.", "org", "operator", "sender", "state"),
		lastAccepted: desc("sender_last_accepted_timestamp_seconds", "Unix time of the last request accepted, as reported.", "operator", "sender"),
		notAfter:     desc("certificate_not_after_timestamp_seconds", "Unix time of the end of a holder's newest leaf.", "operator", "holder", "role"),
		renewBy:      desc("certificate_renew_by_timestamp_seconds", "Unix time after which a holder's renewal is overdue.", "operator", "holder", "role"),
		caNotAfter:   desc("ca_not_after_timestamp_seconds", "Unix time of the end of an operator's CA.", "org", "operator"),
		sealed:       desc("ca_keys_sealed", "1 when CA keys are sealed by a passphrase."),
		unconfirmed:  desc("policy_unconfirmed_instances", "Operator instances that have not confirmed a revocation."),
		tokens:       desc("enrollment_tokens", "Enrolment tokens by state.", "state"),
		backup:       desc("backup_last_success_timestamp_seconds", "Unix time of the last backup that succeeded, 0 before the first."),
	}
}

// Describe implements prometheus.Collector.
func (c *stateCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.lastSeen, c.reporting, c.senderState, c.lastAccepted, c.notAfter, c.renewBy, c.caNotAfter, c.sealed, c.unconfirmed, c.tokens, c.backup} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. When the database fails, what could
// not be read is absent and the failure is logged.
func (c *stateCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	gauge(c.sealed, boolValue(c.s.cfg.KeysSealed))
	err := c.s.cfg.Store.View(ctx, func(tx *ledger.Tx) error {
		for _, read := range []func(*ledger.Tx, gaugeFunc) error{c.operators, c.senders, c.leaves, c.counts} {
			if err := read(tx, gauge); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		c.s.log.WarnContext(ctx, "reading metrics from the database failed", slog.Any("error", err))
	}
}

type gaugeFunc func(d *prometheus.Desc, value float64, labels ...string)

func (c *stateCollector) operators(tx *ledger.Tx, gauge gaugeFunc) error {
	return each(tx, `SELECT id, org_id, state, heartbeat_hash IS NOT NULL, last_seen_at, client_ca_cert FROM operators WHERE state <> 'deleted'`,
		func(scan func(...any) error) error {
			var id, org, state string
			var minted bool
			var seen sql.NullInt64
			var der []byte
			if err := scan(&id, &org, &state, &minted, &seen, &der); err != nil {
				return err
			}
			ca, err := x509.ParseCertificate(der)
			if err != nil {
				return fmt.Errorf("parsing the CA certificate of %s: %w", id, err)
			}
			gauge(c.caNotAfter, float64(ca.NotAfter.Unix()), org, id)
			if seen.Valid {
				gauge(c.lastSeen, float64(seen.Int64), org, id)
			}
			gauge(c.reporting, boolValue(minted && seen.Valid), org, id)
			return nil
		})
}

func (c *stateCollector) senders(tx *ledger.Tx, gauge gaugeFunc) error {
	return liveness.EachSender(tx, func(sender liveness.SenderStatus) {
		gauge(c.senderState, 1, sender.OrgID, sender.OperatorID, sender.Name, sender.Status)
		if at := sender.LastAcceptedAt; at != nil {
			gauge(c.lastAccepted, float64(at.Unix()), sender.OperatorID, sender.Name)
		}
	})
}

func (c *stateCollector) leaves(tx *ledger.Tx, gauge gaugeFunc) error {
	return each(tx, `SELECT operator_id, holder, role, not_after, renew_by FROM entries WHERE superseded_at IS NULL AND revoked_at IS NULL`,
		func(scan func(...any) error) error {
			var operator, holder, role string
			var notAfter, renewBy int64
			if err := scan(&operator, &holder, &role, &notAfter, &renewBy); err != nil {
				return err
			}
			gauge(c.notAfter, float64(notAfter), operator, holder, role)
			gauge(c.renewBy, float64(renewBy), operator, holder, role)
			return nil
		})
}

func (c *stateCollector) counts(tx *ledger.Tx, gauge gaugeFunc) error {
	unconfirmed, err := liveness.UnconfirmedInstances(tx)
	if err != nil {
		return err
	}
	gauge(c.unconfirmed, float64(unconfirmed))
	counts := map[string]int64{"open": 0, "spent": 0, "revoked": 0, "expired": 0}
	err = each(tx, `SELECT state, expires_at <= $1, COUNT(*) FROM enrollment_tokens GROUP BY state, expires_at <= $1`,
		func(scan func(...any) error) error {
			var state string
			var ended bool
			var n int64
			if err := scan(&state, &ended, &n); err != nil {
				return err
			}
			if state == "open" && ended {
				state = "expired"
			}
			counts[state] += n
			return nil
		}, tx.Now().Unix())
	for state, n := range counts {
		gauge(c.tokens, float64(n), state)
	}
	if err != nil {
		return err
	}
	return c.lastBackup(tx, gauge)
}

// lastBackup shows 0 before the first backup, so that an alert on its age fires.
func (c *stateCollector) lastBackup(tx *ledger.Tx, gauge gaugeFunc) error {
	at, err := liveness.LastBackup(tx)
	switch {
	case err != nil:
		return err
	case at == nil:
		gauge(c.backup, 0)
	default:
		gauge(c.backup, float64(at.Unix()))
	}
	return nil
}

// each runs fn for every row of a query.
func each(tx *ledger.Tx, query string, fn func(scan func(...any) error) error, args ...any) error {
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

func boolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
