// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
)

const (
	// unreachableAfter is how long an instance may neither report nor poll.
	unreachableAfter = 90 * time.Second
	// receiptPoll is how often a waiting receipt looks for reports that another
	// replica took.
	receiptPoll = 500 * time.Millisecond
)

// Receipt returns a receipt of an organisation as it stands, or not_found. With a
// wait it returns as soon as no instance is pending, at the latest when wait has
// passed.
func (h *Hub) Receipt(ctx context.Context, orgID, receiptID string, wait time.Duration) (*controlapi.Receipt, error) {
	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	poll := time.NewTicker(receiptPoll)
	defer poll.Stop()
	for {
		reported := h.reports.wait("")
		receipt, err := h.readReceipt(ctx, orgID, receiptID)
		if err != nil || wait <= 0 || !pending(receipt) {
			return receipt, err
		}
		select {
		case <-reported:
		case <-poll.C:
		case <-timeout.C:
			return receipt, nil
		case <-h.stop:
			return receipt, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func pending(r *controlapi.Receipt) bool {
	for _, instance := range r.Instances {
		if instance.State == controlapi.ReceiptPending {
			return true
		}
	}
	return false
}

func (h *Hub) readReceipt(ctx context.Context, orgID, receiptID string) (receipt *controlapi.Receipt, err error) {
	err = h.store.View(ctx, func(tx *ledger.Tx) error {
		if receipt, err = operators.ReadReceipt(tx, orgID, receiptID); err != nil {
			return err
		}
		for i := range receipt.Instances {
			if err := h.judge(tx, &receipt.Instances[i]); err != nil {
				return fmt.Errorf("reading when an instance was heard: %w", err)
			}
		}
		return nil
	})
	return receipt, err
}

// judge calls an instance unreachable that has not confirmed and was not heard.
func (h *Hub) judge(tx *ledger.Tx, i *controlapi.ReceiptInstance) error {
	if i.State != controlapi.ReceiptPending {
		return nil
	}
	var reportedAt int64
	var report string
	err := tx.QueryRow(`SELECT reported_at, report FROM reports WHERE operator_id = $1 AND instance = $2`,
		i.Operator, i.Instance).Scan(&reportedAt, &report)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if !h.heardLately(i.Operator, reportedAt, report, tx.Now()) {
		i.State = controlapi.ReceiptUnreachable
	}
	return nil
}

// heardLately reports whether an instance reported in the last 90 s, or polled
// with the leaf that it last reported.
func (h *Hub) heardLately(operatorID string, reportedAt int64, report string, now time.Time) bool {
	since := now.Add(-unreachableAfter)
	if !time.Unix(reportedAt, 0).Before(since) {
		return true
	}
	var last struct {
		ReceiverSerial string `json:"receiverSerial"`
	}
	if json.Unmarshal([]byte(report), &last) != nil || last.ReceiverSerial == "" {
		return false
	}
	return !h.polls.last(operatorID, last.ReceiverSerial).Before(since)
}
