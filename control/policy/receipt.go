// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"fmt"
	"slices"
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
		if err := h.judge(tx, receipt.Instances); err != nil {
			return fmt.Errorf("reading when an instance was heard: %w", err)
		}
		return nil
	})
	return receipt, err
}

// judge calls every instance unreachable that has not confirmed and was not heard
// for unreachableAfter.
func (h *Hub) judge(tx *ledger.Tx, waited []controlapi.ReceiptInstance) error {
	known := map[string][]instance{}
	for i := range waited {
		w := &waited[i]
		if w.State != controlapi.ReceiptPending {
			continue
		}
		all, ok := known[w.Operator]
		if !ok {
			var err error
			if all, err = h.instances(tx, w.Operator, nil); err != nil {
				return err
			}
			known[w.Operator] = all
		}
		at := slices.IndexFunc(all, func(one instance) bool { return one.name == w.Instance })
		if at < 0 || tx.Now().Sub(all[at].heard) > unreachableAfter {
			w.State = controlapi.ReceiptUnreachable
		}
	}
	return nil
}
