// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certnameauth

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/ikhnos/continuum/components/extension/certnameauth/internal/senders"
	"github.com/ikhnos/continuum/internal/controlapi"
)

const (
	reportEvery = 30 * time.Second
	// reportLines bounds one report well below the megabyte that a server reads.
	// An instance that has more senders than that repeats only those that changed.
	reportLines = 1500
)

// reporter tells the server what this instance enforces and sees.
type reporter struct {
	server   server
	policy   *PolicyConfig
	keeper   *keeper
	logger   *zap.Logger
	now      func() time.Time
	wake     signal
	instance string
	version  string
	started  time.Time

	// All below belong to the reporter's goroutine.
	told      map[string]controlapi.ReportSender // as last delivered
	epochTold int64                              // the epoch whose denials were delivered; -1: none
	failures  int
	lastError string
}

// run reports until ctx ends: every reportEvery, at once when woken, and again
// soon after a failure.
func (r *reporter) run(ctx context.Context) {
	timer := time.NewTimer(reportEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		case <-timer.C:
		}
		next := reportEvery
		if err := r.send(ctx); err != nil {
			r.failures++
			next = backoff(r.failures)
		} else {
			r.failures = 0
		}
		timer.Reset(next)
	}
}

// send delivers one report, in parts when it is long. Without a policy there is
// nothing to tell.
func (r *reporter) send(ctx context.Context) error {
	now := r.keeper.snapshot()
	if now.state == nil {
		return nil
	}
	err := r.deliver(ctx, now)
	if text(err) != r.lastError && ctx.Err() == nil {
		r.lastError = text(err)
		if err != nil {
			r.logger.Warn("Report to the control server failed, it will be sent again", zap.Error(err))
		}
	}
	return err
}

func (r *reporter) deliver(ctx context.Context, now snapshot) error {
	holder, leaf, err := r.policy.Proof.holder()
	if err != nil {
		return err
	}
	report := controlapi.Report{
		Instance:  r.instance,
		Version:   r.version,
		StartedAt: controlapi.Seconds(r.started),
		Policy: controlapi.ReportPolicy{
			Version:     now.state.Policy.Version,
			AppliedAt:   controlapi.Seconds(now.appliedAt),
			AppliedAtMs: now.appliedAt.UnixMilli(),
		},
		ReceiverSerial: senders.SerialText(leaf.SerialNumber),
		ClockOffsetMs:  r.server.ClockOffset().Milliseconds(),
	}
	if r.epochTold != report.Policy.Epoch {
		report.Denied = now.state.Denied()
		clear(r.told) // a restored server has forgotten what it was told
	}
	lines := r.lines()
	for first := true; first || len(lines) > 0; first = false {
		part := lines[:min(len(lines), reportLines)]
		lines = lines[len(part):]
		report.Senders = part
		if err := r.server.Report(ctx, holder, &report); err != nil {
			return err
		}
		for _, line := range part {
			r.told[line.Name] = line
		}
		r.epochTold, report.Denied = report.Policy.Epoch, nil
	}
	return nil
}

// lines are the senders that did something since start; of very many, those that
// did since they were last told. Never nil.
func (r *reporter) lines() []controlapi.ReportSender {
	lines := []controlapi.ReportSender{}
	if r.policy.Report != reportSenders {
		return lines
	}
	for _, stats := range r.keeper.registry.All() {
		if line, ok := stats.Report(); ok {
			lines = append(lines, line)
		}
	}
	if len(lines) > reportLines {
		lines = slices.DeleteFunc(lines, func(line controlapi.ReportSender) bool {
			told, ok := r.told[line.Name]
			return ok && reflect.DeepEqual(told, line)
		})
	}
	slices.SortFunc(lines, func(a, b controlapi.ReportSender) int { return strings.Compare(a.Name, b.Name) })
	return lines
}
