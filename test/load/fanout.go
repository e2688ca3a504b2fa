// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package load

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ikhnos/continuum/control/operators"
)

// The two clusters that send to every operator of the fan-out part. The first is
// cut off at one operator after the other, the second everywhere at once.
const (
	cutOneByOne = "one"
	cutAtOnce   = "all"
)

// fleet is the operators that wait for their policy.
type fleet struct {
	*server
	polls   []*poll
	waiting atomic.Int64 // polls that are sent and not answered
	fail    context.CancelCauseFunc
	running sync.WaitGroup
}

func operatorName(i int) string { return fmt.Sprintf("op-f%d", i) }

// fanOutPart has o.Operators operators wait in long polls, each over a TLS
// connection of its own, and measures from the call of a revoke to the new policy
// being in the operator's hands. Like the component, an operator asks again and
// reports at once.
func fanOutPart(ctx context.Context, o Options) error {
	s, err := startServer(ctx, o, onThisDisk)
	if err != nil {
		return err
	}
	defer s.Stop()
	ctx, cancel := context.WithCancelCause(ctx)
	f := &fleet{server: s, fail: cancel, polls: make([]*poll, o.Operators)}
	defer f.running.Wait()
	defer cancel(nil)
	if err := f.prepare(ctx); err != nil {
		return err
	}
	if err := await(ctx, s.Process, func(context.Context) error {
		if n := int(f.waiting.Load()); n != o.Operators {
			return fmt.Errorf("%d of %d operators wait", n, o.Operators)
		}
		return nil
	}); err != nil {
		return err
	}
	o.printf("\nPolicy fan-out, %d operators in long polls, a TLS connection each; from the revoke call to the policy in hand\n", o.Operators)
	if err := f.oneByOne(ctx, o); err != nil {
		return err
	}
	if err := f.atOnce(ctx, o); err != nil {
		return err
	}
	now, peak, err := s.Memory()
	o.printf("%-44s %.0f MiB now, %.0f MiB at most\n", "resident memory:", mib(now), mib(peak))
	return err
}

// prepare makes the operators, connects both clusters to each and starts their
// polls.
func (f *fleet) prepare(ctx context.Context) error {
	for _, id := range []string{cutOneByOne, cutAtOnce} {
		if err := f.putCluster(ctx, id); err != nil {
			return err
		}
	}
	requests, err := newKeyRequests(ctx, len(f.polls))
	if err != nil {
		return err
	}
	return parallel(ctx, setupWorkers, len(f.polls), func(setup context.Context, _, i int) error {
		if err := f.putOperator(setup, operatorName(i), operators.SwitchOff); err != nil {
			return err
		}
		for _, id := range []string{cutOneByOne, cutAtOnce} {
			if _, err := f.api.ConnectSender(setup, operatorName(i), id, ""); err != nil {
				return err
			}
		}
		client, closeIdle, err := f.client()
		if err != nil {
			return err
		}
		holder, err := f.enroll(setup, client, operatorName(i), "", requests[i])
		if err != nil {
			return err
		}
		f.polls[i] = &poll{changed: make(chan struct{})}
		f.running.Go(func() {
			defer closeIdle()
			err := f.operate(ctx, f.polls[i], client, holder) // until something fails
			if ctx.Err() == nil {
				f.fail(fmt.Errorf("polling for %s: %w", operatorName(i), err))
			}
		})
		return nil
	})
}

// oneByOne revokes a sender of each operator, o.Workers calls at a time.
func (f *fleet) oneByOne(ctx context.Context, o Options) error {
	r, err := measure(ctx, f.Process, o.Workers, len(f.polls), func(ctx context.Context, _, i int, _ func(time.Time)) error {
		began := time.Now()
		receipt, err := f.api.RevokeSender(ctx, operatorName(i), cutOneByOne, operators.RevokeCompromised, "", 0)
		if err != nil {
			return err
		}
		f.polls[i].expect(began, receipt.Number)
		return nil
	})
	if err != nil {
		return err
	}
	o.printf("%-44s %.0f revokes/s\n", fmt.Sprintf("one change for each operator, %d workers:", o.Workers), float64(len(f.polls))/r.took.Seconds())
	return f.delivered(ctx, o)
}

// atOnce revokes a cluster that sends to every operator.
func (f *fleet) atOnce(ctx context.Context, o Options) error {
	began := time.Now()
	receipt, err := f.api.RevokeCluster(ctx, cutAtOnce, "", 0)
	if err != nil {
		return err
	}
	o.printf("%-44s answered after %.0f ms\n", "one change for all operators:", ms(time.Since(began)))
	for _, p := range f.polls {
		p.expect(began, receipt.Number)
	}
	return f.delivered(ctx, o)
}

// delivered waits until every operator has what is expected and prints how long
// that took.
func (f *fleet) delivered(ctx context.Context, o Options) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var r result
	for _, p := range f.polls {
		took, err := p.took(ctx)
		if err != nil {
			return fmt.Errorf("waiting for a policy: %w", err)
		}
		r.times = append(r.times, took)
	}
	slices.Sort(r.times)
	o.printf("%-44s p50 %.0f ms, p99 %.0f ms, last %.0f ms\n", "", ms(r.quantile(0.5)), ms(r.quantile(0.99)), ms(r.quantile(1)))
	return nil
}
