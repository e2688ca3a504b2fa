// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certnameauth

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"

	"github.com/ikhnos/continuum/components/extension/certnameauth/internal/policystate"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/controlclient"
	"github.com/ikhnos/continuum/internal/signedpolicy"
)

const (
	longPoll     = 50 * time.Second // below the idle timeout of usual proxies
	minPoll      = time.Second      // between polls that the server answers at once
	retryMin     = time.Second
	retryMax     = 30 * time.Second
	refreshEvery = 2 * time.Second // at most, for senders that are not yet known
)

// server is what the extension asks of a control server.
type server interface {
	Policy(ctx context.Context, h controlclient.Holder, etag string, wait time.Duration) (controlclient.PolicyAnswer, error)
	Report(ctx context.Context, h controlclient.Holder, r *controlapi.Report) error
	ClockOffset() time.Duration
	CloseIdleConnections()
}

// poller keeps the policy as new as the server has it.
type poller struct {
	server  server
	cfg     *Config
	policy  *PolicyConfig
	keeper  *keeper
	health  *health
	logger  *zap.Logger
	now     func() time.Time
	refresh signal
	fetches metric.Int64Counter

	// All below belong to the poller's goroutine once it runs.
	restored  bool // the cache file was looked at
	etag      string
	failures  int
	refreshed time.Time // when a refresh was last asked for
}

// outcome of a fetch, as its metric names it.
type outcome string

const (
	fetchUpdated     outcome = "updated"
	fetchNotModified outcome = "not_modified"
	fetchRefused     outcome = "refused"
	fetchUnreachable outcome = "unreachable"
	fetchInvalid     outcome = "invalid"
)

// run polls until ctx ends.
func (p *poller) run(ctx context.Context) {
	wait := p.wait()
	for ctx.Err() == nil {
		pause, kicked := p.once(ctx, wait)
		if !kicked {
			kicked = p.rest(ctx, pause)
		}
		wait = p.wait()
		if kicked {
			wait = 0 // the answer is wanted now, whatever it is
		}
	}
}

// wait is how long the server may hold a poll: at most half of what makes the
// policy stale, in whole seconds.
func (p *poller) wait() time.Duration {
	wait := longPoll
	if limit := p.policy.MaxStaleness; limit > 0 {
		wait = min(wait, limit/2)
	}
	return wait.Truncate(time.Second)
}

// once makes one fetch and returns how long to rest. kicked says that it was
// broken off because a refresh is wanted.
func (p *poller) once(ctx context.Context, wait time.Duration) (pause time.Duration, kicked bool) {
	v, err := p.policy.Proof.verifier(p.cfg.OperatorID)
	if err == nil {
		p.restore(v)
	}
	h, _, keyErr := p.policy.Proof.holder()
	if err = errors.Join(err, keyErr); err != nil {
		p.note(fmt.Errorf("there is no certificate to prove this operator with: %w", err))
		return retryMin, false
	}
	began := p.now()
	answer, kicked, err := p.poll(ctx, h, wait)
	if kicked || ctx.Err() != nil {
		return 0, kicked
	}
	result, err := p.take(v, answer, err)
	p.fetches.Add(ctx, 1, metric.WithAttributes(attribute.String("outcome", string(result))))
	p.note(err)
	if err != nil {
		p.failures++
		return backoff(p.failures), false
	}
	p.failures = 0
	if result == fetchUpdated || wait == 0 && p.wait() > 0 {
		return 0, false
	}
	return p.minPoll() - p.now().Sub(began), false
}

func (p *poller) minPoll() time.Duration {
	if limit := p.policy.MaxStaleness; limit > 0 {
		return min(minPoll, limit/2)
	}
	return minPoll
}

// backoff is full jitter between retryMin and a bound that doubles.
func backoff(failures int) time.Duration {
	bound := min(retryMax, retryMin<<min(failures, 6))
	return retryMin + rand.N(bound-retryMin+1)
}

// poll asks the server and breaks off when a refresh is wanted meanwhile.
func (p *poller) poll(ctx context.Context, h controlclient.Holder, wait time.Duration) (answer controlclient.PolicyAnswer, kicked bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	watched := make(chan bool, 1)
	go func() { watched <- p.wanted(ctx, cancel) }()
	answer, err = p.server.Policy(ctx, h, p.etag, wait)
	cancel()
	kicked = <-watched && err != nil
	return answer, kicked, err
}

// wanted waits until ctx ends or a refresh is wanted and due, which breaks off.
func (p *poller) wanted(ctx context.Context, breakOff func()) bool {
	select {
	case <-ctx.Done():
		return false
	case <-p.refresh:
	}
	timer := time.NewTimer(p.refreshed.Add(refreshEvery).Sub(p.now()))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		p.refresh.raise() // keep the wish
		return false
	case <-timer.C:
	}
	p.refreshed = p.now()
	breakOff()
	return true
}

// rest waits, and less when a refresh is wanted.
func (p *poller) rest(ctx context.Context, pause time.Duration) (kicked bool) {
	if pause <= 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, pause)
	defer cancel()
	return p.wanted(ctx, cancel)
}

// take puts a good answer in force.
func (p *poller) take(v policystate.Verifier, answer controlclient.PolicyAnswer, err error) (outcome, error) {
	var problem *controlapi.Problem
	switch {
	case errors.As(err, &problem) && problem.Reason == controlapi.ReasonLedgerRollback:
		return fetchRefused, fmt.Errorf("%w: %w", policystate.ErrRegressed, err)
	case controlclient.Refused(err):
		return fetchRefused, err
	case err != nil:
		return fetchUnreachable, err
	case answer.NotModified:
		p.keeper.confirm()
		return fetchNotModified, nil
	}
	policy, err := v.Verify(answer.JWS)
	if err != nil {
		return fetchInvalid, err
	}
	changed, err := p.keeper.offer(answer.JWS, policy)
	if err != nil {
		return fetchInvalid, err
	}
	p.etag = answer.ETag
	if !changed {
		return fetchNotModified, nil
	}
	p.logger.Info("Sender policy in force", zap.Int64("epoch", policy.Epoch), zap.Int64("number", policy.Number))
	return fetchUpdated, nil
}

// note tells health and log what became of a fetch. A server that cannot be
// reached is no fault while there is a policy: it stays in force.
func (p *poller) note(err error) {
	switch word := statusWord(err); {
	case err == nil:
		p.health.set(faultPolicy, nil)
	case word != "":
		err = fmt.Errorf("%s: %w", word, err)
		p.health.set(faultPolicy, err)
	}
	if !p.health.fetched(err) {
		return
	}
	switch {
	case err == nil:
		p.logger.Info("Sender policy is fetched again")
	case p.keeper.snapshot().state == nil:
		p.logger.Warn("Sender policy cannot be fetched, and there is none yet: every request is refused, retryably", zap.Error(err))
	default:
		p.logger.Warn("Sender policy cannot be fetched, the last one stays in force", zap.Error(err))
	}
}

// statusWord is the word of a component status for an answer that must not be
// taken; "" for every other failure.
func statusWord(err error) string {
	switch {
	case errors.Is(err, policystate.ErrRegressed):
		return "policy_regressed"
	case errors.Is(err, signedpolicy.ErrSignature), errors.Is(err, signedpolicy.ErrPayload), errors.Is(err, policystate.ErrOperator):
		return "policy_signature"
	}
	return ""
}

// restoreEarly looks at the cache file before run does.
func (p *poller) restoreEarly() {
	if v, err := p.policy.Proof.verifier(p.cfg.OperatorID); err == nil {
		p.restore(v)
	}
}

// restore looks at the cache file, as soon as the CA that signed it can be read.
func (p *poller) restore(v policystate.Verifier) {
	if p.restored {
		return
	}
	p.restored = true
	err := p.keeper.restore(v)
	switch {
	case err == nil:
		p.logger.Info("Sender policy taken from the cache file")
	case !errors.Is(err, fs.ErrNotExist):
		if word := statusWord(err); word != "" {
			err = fmt.Errorf("%s: %w", word, err)
		}
		p.health.set(faultCache, err)
		p.logger.Error("Cache file of the sender policy cannot be used", zap.Error(err))
	}
}
