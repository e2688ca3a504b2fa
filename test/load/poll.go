// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package load

import (
	"context"
	"errors"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/controlclient"
)

// pollWait is the wait of one long poll: a full minute, as the component asks for.
const pollWait = time.Minute

// poll is what one operator was given, and what it should be given.
type poll struct {
	mu       sync.Mutex
	came     []delivery    // guarded by mu
	changed  chan struct{} // closed at the next policy, guarded by mu
	began    time.Time     // when the change was asked for
	expected int64         // number of that change
}

// delivery is a policy that came.
type delivery struct {
	number int64
	at     time.Time
}

// operate polls, over and over, until ctx ends.
func (f *fleet) operate(ctx context.Context, p *poll, client *controlclient.Client, holder controlclient.Holder) error {
	started, etag := time.Now(), ""
	trace := &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { f.waiting.Add(1) }}
	for {
		answer, err := client.Policy(httptrace.WithClientTrace(ctx, trace), holder, etag, pollWait)
		f.waiting.Add(-1)
		if err != nil {
			return err
		}
		if answer.NotModified {
			continue
		}
		etag = answer.ETag
		version, err := versionOf(etag)
		if err != nil {
			return err
		}
		now := time.Now()
		p.deliver(delivery{version.Number, now})
		err = client.Report(ctx, holder, &controlapi.Report{
			Instance: "bench", Version: "bench", StartedAt: started.UTC().Truncate(time.Second),
			Policy:  controlapi.ReportPolicy{Version: version, AppliedAt: now.UTC().Truncate(time.Second), AppliedAtMs: now.UnixMilli()},
			Senders: []controlapi.ReportSender{},
		})
		if err != nil {
			return err
		}
	}
}

// versionOf reads the version in an ETag: "EPOCH.NUMBER".
func versionOf(etag string) (v controlapi.Version, err error) {
	epoch, number, _ := strings.Cut(strings.Trim(etag, `"`), ".")
	var err1, err2 error
	v.Epoch, err1 = strconv.ParseInt(epoch, 10, 64)
	v.Number, err2 = strconv.ParseInt(number, 10, 64)
	return v, errors.Join(err1, err2)
}

func (p *poll) deliver(d delivery) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.came = append(p.came, d)
	close(p.changed)
	p.changed = make(chan struct{})
}

// expect says what took is to wait for.
func (p *poll) expect(began time.Time, number int64) { p.began, p.expected = began, number }

// took waits for the expected policy and returns how long it was on its way.
func (p *poll) took(ctx context.Context) (time.Duration, error) {
	for {
		p.mu.Lock()
		came, changed := p.came, p.changed
		p.mu.Unlock()
		for _, d := range came {
			if d.number >= p.expected {
				return d.at.Sub(p.began), nil
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}
