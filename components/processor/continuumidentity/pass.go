// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package continuumidentity

import (
	"context"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// pass is the work on one request.
type pass struct {
	*identityProcessor
	rules   *rules // nil unless the sender is verified
	cleaner cleaner
	dropped [numReasons]bool // resources were, also without items
	counts  counts
}

// begin starts the pass over a request of so many items, or refuses it.
func (p *identityProcessor) begin(ctx context.Context, items int) (pass, error) {
	ps := pass{
		identityProcessor: p,
		cleaner: cleaner{
			reserved: p.reserved,
			labels:   noLabels,
			rename:   p.below == LabelsRename,
		},
	}
	if p.mode == ModeStamp || p.mode == ModeEnforce {
		if ps.rules = p.senders.rules(ctx); ps.rules == nil {
			ps.counts.refused[reasonNoIdentity] += int64(items)
			return ps, ps.refuse(ctx, reasonNoIdentity)
		}
	}
	if p.below != LabelsKeep && ps.rules != nil {
		ps.cleaner.labels[0] = ps.rules.labels
	}
	if p.below != LabelsKeep && p.operator != nil {
		ps.cleaner.labels[1] = p.operator.labels
	}
	return ps, nil
}

// skipsBelow reports whether nothing below a resource can need a change.
func (ps *pass) skipsBelow() bool { return ps.mode == "" && ps.below == LabelsKeep }

// clean cleans one map below the resource.
func (ps *pass) clean(m pcommon.Map, at level) { ps.counts.removed[at] += ps.cleaner.clean(m) }

// end turns the counts into metrics and log lines. It returns an error when
// resources were dropped and no item is left.
func (ps *pass) end(ctx context.Context, itemsLeft func() int) error {
	if ps.counts == (counts{}) && ps.dropped == [numReasons]bool{} {
		return nil
	}
	for why, dropped := range ps.dropped {
		if dropped && itemsLeft() == 0 {
			return ps.refuse(ctx, reason(why))
		}
	}
	ps.flush(ctx, ps.sender(ctx))
	return nil
}

// refuse ends the pass over a request that is not passed on.
func (ps *pass) refuse(ctx context.Context, why reason) error {
	sender := ps.sender(ctx)
	ps.flush(ctx, sender)
	ps.log.refused(sender, ps.signal, reasonNames[why])
	return refuse(why)
}

func (ps *pass) flush(ctx context.Context, sender string) {
	ps.counts.add(ctx, ps.telemetry, sender, ps.signal)
	for key := range ps.counts.conflicts {
		for done, n := range ps.counts.conflicts[key] {
			if n > 0 {
				ps.log.conflicts(sender, ps.signal, keyNames[key], actionNames[done], n)
			}
		}
	}
}

func (ps *pass) sender(ctx context.Context) string {
	if ps.rules != nil {
		return ps.rules.sender
	}
	return ps.senders.name(ctx)
}
