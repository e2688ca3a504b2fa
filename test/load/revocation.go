// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ikhnos/continuum/control/operators"
)

// cutBar is how long after the answer to a revoke the sender may still be let in,
// at the 99th percentile.
const cutBar = time.Second

// revocationPart has o.Operators operators wait for their policy. o.Cuts of them
// are certnameauth behind an OTLP receiver with a sender on an open connection. It
// revokes those senders while they push, and measures from the answer of the
// revoke to the last request that came through. The receipt of each has to agree
// with what operator and sender counted.
func revocationPart(ctx context.Context, o Options) error {
	s, err := startServer(ctx, o, onThisDisk)
	if err != nil {
		return err
	}
	defer s.Stop()
	ctx, cancel := context.WithCancelCause(ctx)
	cuts := min(o.Cuts, o.Operators)
	f := &fleet{server: s, fail: cancel, polls: make([]*poll, o.Operators-cuts)}
	defer f.running.Wait()
	defer cancel(nil)
	sites, err := f.prepareSites(ctx, cuts)
	defer stopSites(sites)
	if err != nil {
		return err
	}
	if err := f.prepareBystanders(ctx, cuts); err != nil {
		return err
	}
	if err := await(ctx, s.Process, func(context.Context) error {
		if n := int(f.waiting.Load()); n != len(f.polls) {
			return fmt.Errorf("%d of %d operators wait", n, len(f.polls))
		}
		return nil
	}); err != nil {
		return err
	}
	all := make([]cutoff, cuts)
	if err := parallel(ctx, o.Workers, cuts, func(ctx context.Context, _, i int) (err error) {
		all[i], err = f.cut(ctx, sites[i])
		if err != nil {
			err = fmt.Errorf("cutting off the sender of %s over %s: %w", sites[i].id, sites[i].protocol, err)
		}
		return err
	}); err != nil {
		return err
	}
	o.printCutoffs(sites, all)
	return nil
}

// prepareBystanders makes the operators that only wait, and starts their polls.
func (f *fleet) prepareBystanders(ctx context.Context, first int) error {
	requests, err := newKeyRequests(ctx, len(f.polls))
	if err != nil {
		return err
	}
	return parallel(ctx, setupWorkers, len(f.polls), func(setup context.Context, _, i int) error {
		id := operatorName(first + i)
		if err := f.putOperator(setup, id, operators.SwitchOff); err != nil {
			return err
		}
		client, closeIdle, err := f.client()
		if err != nil {
			return err
		}
		holder, err := f.enroll(setup, client, id, "", requests[i])
		if err != nil {
			return err
		}
		f.polls[i] = &poll{changed: make(chan struct{})}
		f.running.Go(func() {
			defer closeIdle()
			err := f.operate(ctx, f.polls[i], client, holder) // until something fails
			if ctx.Err() == nil {
				f.fail(fmt.Errorf("polling for %s: %w", id, err))
			}
		})
		return nil
	})
}

// prepareSites makes the operators whose sender will be cut off; their protocols
// take turns. What it returns beside an error has to be stopped, too.
func (f *fleet) prepareSites(ctx context.Context, n int) ([]*site, error) {
	if err := f.putCluster(ctx, cutOneByOne); err != nil {
		return nil, err
	}
	requests, err := newKeyRequests(ctx, 2*n)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	sites := make([]*site, n)
	err = parallel(ctx, setupWorkers, n, func(ctx context.Context, _, i int) error {
		site, err := f.newSite(ctx, i, requests[2*i], requests[2*i+1])
		mu.Lock()
		defer mu.Unlock()
		sites[i] = site
		return err
	})
	return slices.DeleteFunc(sites, func(s *site) bool { return s == nil }), err
}

// cutoff is what came of one revocation.
type cutoff struct {
	call              time.Duration // that the revoke took
	late              time.Duration // from its answer to the last accepted request; below 0: it came before
	accepted, refused int64         // requests of the sender
}

// cut revokes the sender of a site in the middle of its pushing.
func (f *fleet) cut(ctx context.Context, s *site) (cutoff, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	p := &push{site: s, warm: make(chan struct{})}
	ended := make(chan error, 1)
	go func() { ended <- p.run(ctx) }()
	select {
	case <-p.warm:
	case err := <-ended:
		return cutoff{}, err
	}
	began := time.Now()
	receipt, err := f.api.RevokeSender(ctx, s.id, cutOneByOne, operators.RevokeCompromised, "", 0)
	answered := time.Now()
	if err != nil {
		cancel()
		return cutoff{}, errors.Join(err, <-ended)
	}
	if err := <-ended; err != nil {
		return cutoff{}, err
	}
	return cutoff{answered.Sub(began), s.last.Sub(answered), p.accepted, p.refused}, f.compare(ctx, s, p, receipt.ReceiptID)
}

// printCutoffs prints the times by protocol and together.
func (o Options) printCutoffs(sites []*site, all []cutoff) {
	o.printf("\nRevocation, %d operators in long polls, %d of them certnameauth behind an OTLP receiver with a sender on an\n"+
		"open connection that pushes without a pause; %d cut off at a time; from the answer of the revoke to the last accepted request\n",
		o.Operators, len(all), o.Workers)
	line := func(name string, of func(int) bool) {
		var late, call result
		before := 0
		for i, c := range all {
			if !of(i) {
				continue
			}
			if c.late < 0 {
				before++
			}
			late.times = append(late.times, max(c.late, 0))
			call.times = append(call.times, c.call)
		}
		slices.Sort(late.times)
		slices.Sort(call.times)
		o.printf("%-44s p50 %.1f ms, p99 %.1f ms, max %.1f ms; %d of %d before the answer; the call itself p50 %.1f ms\n", name,
			ms(late.quantile(0.5)), ms(late.quantile(0.99)), ms(late.quantile(1)), before, len(late.times), ms(call.quantile(0.5)))
	}
	for _, protocol := range protocols {
		line("over "+protocol+":", func(i int) bool { return sites[i].protocol == protocol })
	}
	line(fmt.Sprintf("together (the bar is %.0f ms at p99):", ms(cutBar)), func(int) bool { return true })
	var accepted, refused int64
	for _, c := range all {
		accepted, refused = accepted+c.accepted, refused+c.refused
	}
	o.printf("%-44s %d of %d confirmed, times and counts as operators and senders had them (%d accepted, %d refused)\n",
		"receipts:", len(all), len(all), accepted, refused)
}
