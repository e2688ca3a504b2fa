// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package operators

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/ikhnos/continuum/control/audit"
	"github.com/ikhnos/continuum/control/ledger"
)

// vouchFor is how long an operator may still relay a cluster that has left it, so
// that queued data drains.
const vouchFor = 24 * time.Hour

// settingSwept keeps up to when departures from vouched sets were announced.
const settingSwept = "vouches_swept"

// Sweep does what follows from the clock alone and is called about once a minute:
// rekeys whose overlap has passed end, policies from which a vouched cluster
// drops out get a new number, and what was removed or ended long ago leaves the
// store. It is harmless to run at several servers.
func (s *Service) Sweep(ctx context.Context) error {
	return errors.Join(s.sweepRekeys(ctx), s.sweepVouches(ctx), s.sweepRemoved(ctx), s.prune(ctx))
}

// keepFor is how long leaves and enrolment tokens stay in the store after their
// end, so that a year can be looked back on. Their events stay in the chain.
const keepFor = 400 * 24 * time.Hour

// prune takes out what ended long ago; by whole days, so that an operator's chain
// grows by one pruned event a day at most.
func (s *Service) prune(ctx context.Context) error {
	bound := func(tx *ledger.Tx) time.Time { return tx.Now().Add(-keepFor).Truncate(24 * time.Hour) }
	due := false
	err := s.store.View(ctx, func(tx *ledger.Tx) (err error) {
		due, err = tx.Prunable(bound(tx))
		return err
	})
	if err != nil || !due {
		return err
	}
	return s.update(ctx, Actor{Name: audit.ActorServer}, func(c *change) error {
		before := bound(c.Tx)
		entries, err := c.PruneAll(before)
		if err != nil || entries == 0 {
			return err
		}
		return c.record(audit.LedgerPruned, audit.ActorServer, map[string]any{"before": before.Format(time.RFC3339), "entries": entries})
	})
}

func (s *Service) sweepRekeys(ctx context.Context) error {
	const overdue = selectSender + ` WHERE s.replaced_until <= $1 ORDER BY s.operator_id, s.holder_id`
	found, err := s.findDue(ctx, func(tx *ledger.Tx) (int, error) {
		senders, err := collect(tx, scanSender, overdue, tx.Now().Unix())
		return len(senders), err
	})
	if err != nil || !found {
		return err
	}
	return s.update(ctx, Actor{Name: audit.ActorServer}, func(c *change) error {
		senders, err := collect(c.Tx, scanSender, overdue, c.Now().Unix())
		if err != nil {
			return err
		}
		for _, sender := range senders {
			if err := c.endRekey(sender); err != nil {
				return err
			}
		}
		return nil
	})
}

// sweepVouches gives a new number to operators whose policy vouched for a cluster
// that left 24 h ago, since the last sweep.
func (s *Service) sweepVouches(ctx context.Context) error {
	found, err := s.findDue(ctx, func(tx *ledger.Tx) (int, error) {
		_, concerned, err := departed(tx)
		return len(concerned), err
	})
	if err != nil || !found {
		return err
	}
	return s.update(ctx, Actor{Name: audit.ActorServer}, func(c *change) error {
		until, concerned, err := departed(c.Tx)
		if err != nil || len(concerned) == 0 {
			return err
		}
		if _, err := c.next(concerned...); err != nil {
			return err
		}
		return c.SetSetting(settingSwept, strconv.AppendInt(nil, until, 10))
	})
}

// departed lists the operators whose vouched set became smaller since the last
// sweep, and the time of leaving (Unix milliseconds) up to which it looked.
func departed(tx *ledger.Tx) (until int64, operatorIDs []string, err error) {
	raw, ok, err := tx.Setting(settingSwept)
	if err != nil {
		return 0, nil, fmt.Errorf("reading the last sweep: %w", err)
	}
	var since int64
	if ok {
		if since, err = strconv.ParseInt(string(raw), 10, 64); err != nil {
			return 0, nil, fmt.Errorf("reading the last sweep: %w", err)
		}
	}
	until = tx.Now().Add(-vouchFor).UnixMilli()
	operatorIDs, err = collect(tx, scanString, `SELECT DISTINCT o.destination_operator FROM senders s
		JOIN operators o ON o.id = s.operator_id JOIN receipts r ON r.id = s.receipt_id
		WHERE s.kind = 'cluster' AND s.state = 'revoked' AND o.destination_operator <> '' AND o.state = 'active'
		AND r.committed_at_ms > $1 AND r.committed_at_ms <= $2`, since, until)
	return until, operatorIDs, err
}

const removedLongAgo = ` FROM senders WHERE removed_at <= $1 AND NOT EXISTS (SELECT 1 FROM entries e
	WHERE e.operator_id = senders.operator_id AND e.holder = senders.name AND e.not_after >= $2)`

// sweepRemoved forgets connections of deleted clusters and operators once no leaf
// of them lives and nobody vouches for them, and clusters that have none left.
func (s *Service) sweepRemoved(ctx context.Context) error {
	bounds := func(tx *ledger.Tx) (int64, int64) { return tx.Now().Add(-vouchFor).Unix() - 1, tx.Now().Unix() }
	found, err := s.findDue(ctx, func(tx *ledger.Tx) (n int, err error) {
		left, now := bounds(tx)
		err = tx.QueryRow(`SELECT COUNT(*)`+removedLongAgo, left, now).Scan(&n)
		return n, err
	})
	if err != nil || !found {
		return err
	}
	return s.store.Update(ctx, func(tx *ledger.Tx) error {
		left, now := bounds(tx)
		if _, err := tx.Exec(`DELETE`+removedLongAgo, left, now); err != nil {
			return fmt.Errorf("forgetting removed senders: %w", err)
		}
		_, err := tx.Exec(`DELETE FROM clusters WHERE state = 'deleted' AND NOT EXISTS (SELECT 1 FROM senders s
			WHERE s.org_id = clusters.org_id AND s.holder_id = clusters.id)`)
		if err != nil {
			return fmt.Errorf("forgetting deleted clusters: %w", err)
		}
		return nil
	})
}

// findDue looks without writing whether a sweep has anything to do.
func (s *Service) findDue(ctx context.Context, count func(tx *ledger.Tx) (int, error)) (bool, error) {
	n := 0
	err := s.store.View(ctx, func(tx *ledger.Tx) (err error) {
		n, err = count(tx)
		return err
	})
	return n > 0, err
}
