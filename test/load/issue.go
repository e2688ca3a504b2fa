// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"time"

	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/controlclient"
	"github.com/ikhnos/continuum/internal/holderproof"
)

// clustersEach is how many clusters send to one operator in the issue part.
const clustersEach = 250

// traced requests are counted by strace, in all.
const tracedRequests = 40 * renewalsEach

// issuePart compares durable issues with step-ca's and looks at the memory that
// the server holds with all its living leaves.
func issuePart(ctx context.Context, o Options) error {
	s, err := startServer(ctx, o, onThisDisk)
	if err != nil {
		return err
	}
	defer s.Stop()
	turns := o.Pairs * (o.Kept + o.Fresh)
	holders, err := s.senders(ctx, o, turns+tracedRequests/renewalsEach)
	if err != nil {
		return err
	}
	var peer *stepCA
	if o.StepCA != "" {
		if peer, err = startStepCA(ctx, o, onThisDisk); err != nil {
			return fmt.Errorf("preparing step-ca: %w", err)
		}
		defer peer.Stop()
	}
	o.printf("\nDurable renewals, %d workers, HTTP/1.1 over TLS 1.3, each for a new key made before\n", o.Workers)
	o.printf("ikhnos: POST renew with a holder proof; step-ca: POST rekey over mTLS, bbolt\n")
	o.printf("server, client: processor time of the server and of the generator for each, in µs\n")
	if holders, err = s.compareBoth(ctx, o, peer, holders, o.Kept, o.Fresh); err != nil {
		return err
	}
	if err := s.printSyncs(ctx, o, peer, holders); err != nil {
		return err
	}
	now, peak, err := s.Memory()
	if err != nil {
		return err
	}
	o.printf("\nikhnos with %d living leaves: %.0f MiB resident now, %.0f MiB at most during all of the above\n",
		turns*(renewalsEach+1)+tracedRequests, mib(now), mib(peak))
	return nil
}

// compareBoth compares with the peer over kept connections and with a new one for
// each renewal, with so many holders in a turn, and returns the holders left over.
func (s *server) compareBoth(ctx context.Context, o Options, peer *stepCA, holders []controlclient.Holder, kept, fresh int) ([]controlclient.Holder, error) {
	for _, mode := range []struct {
		title   string
		fresh   bool
		holders int
	}{{"kept connections", false, kept}, {"a new connection for each", true, fresh}} {
		taken := holders[:o.Pairs*mode.holders]
		holders = holders[o.Pairs*mode.holders:]
		if err := s.compare(ctx, o, peer, taken, mode.title, mode.fresh); err != nil {
			return nil, err
		}
	}
	return holders, nil
}

// senders connects n senders to as many operators as that takes and enrols them.
func (s *server) senders(ctx context.Context, o Options, n int) ([]controlclient.Holder, error) {
	operatorID := func(i int) string { return fmt.Sprintf("op-b%d", i/clustersEach) }
	clusterID := func(i int) string { return fmt.Sprintf("c%d", i%clustersEach) }
	if err := parallel(ctx, setupWorkers, (n+clustersEach-1)/clustersEach, func(ctx context.Context, _, i int) error {
		return s.putOperator(ctx, operatorID(i*clustersEach), operators.SwitchOff)
	}); err != nil {
		return nil, err
	}
	if err := parallel(ctx, setupWorkers, min(n, clustersEach), func(ctx context.Context, _, i int) error {
		return s.putCluster(ctx, clusterID(i))
	}); err != nil {
		return nil, err
	}
	requests, err := newKeyRequests(ctx, n)
	if err != nil {
		return nil, err
	}
	tokens := make([]string, n)
	if err := parallel(ctx, setupWorkers, n, func(ctx context.Context, _, i int) error {
		if _, err := s.api.ConnectSender(ctx, operatorID(i), clusterID(i), ""); err != nil {
			return err
		}
		token, err := s.api.CreateToken(ctx, operatorID(i), controlapi.RoleSender, clusterID(i), time.Hour)
		if err == nil {
			tokens[i] = token.Token
		}
		return err
	}); err != nil {
		return nil, err
	}
	return s.enrollAll(ctx, o, requests, tokens)
}

// enrollAll spends the tokens, and prints how fast that was.
func (s *server) enrollAll(ctx context.Context, o Options, requests []keyRequest, tokens []string) ([]controlclient.Holder, error) {
	conns, closeAll := s.conns(o.Workers, false)
	defer closeAll()
	all := make([]controlclient.Holder, len(tokens))
	r, err := measure(ctx, s.Process, o.Workers, len(tokens), func(ctx context.Context, worker, i int, done func(time.Time)) error {
		began := time.Now()
		body, err := json.Marshal(controlapi.EnrollRequest{Token: tokens[i], CSR: string(requests[i].csr)})
		if err != nil {
			return err
		}
		var certificate controlapi.Certificate
		if err := conns[worker].post(ctx, controlapi.RouteEnroll, "", body, &certificate); err != nil {
			return err
		}
		done(began)
		all[i], err = holderOf(&certificate, requests[i])
		return err
	})
	if err != nil {
		return nil, err
	}
	o.printf("\nDurable enrolments by token, %d workers, kept connections: %.0f/s, p50 %.1f ms, p99 %.1f ms (%d)\n",
		o.Workers, r.rate(), ms(r.quantile(0.5)), ms(r.quantile(0.99)), len(tokens))
	return all, nil
}

// conns are n connections, one for each worker.
func (s *server) conns(n int, fresh bool) (all []*conn, closeAll func()) {
	for range n {
		all = append(all, &conn{address: strings.TrimPrefix(s.url, "https://"), config: connTLS(s.roots, nil), fresh: fresh})
	}
	return all, func() { closeConns(all) }
}

func closeConns(all []*conn) {
	for _, c := range all {
		c.close()
	}
}

// renewal is the next renewal of one holder, ready to be sent.
type renewal struct {
	keyRequest
	body  []byte
	proof string // header line
}

// newRenewals makes keys, requests and proofs for the holders with every core,
// before anything is timed. A proof lives 30 s.
func newRenewals(ctx context.Context, holders []controlclient.Holder) ([]renewal, error) {
	all := make([]renewal, len(holders))
	return all, parallel(ctx, runtime.NumCPU(), len(holders), func(_ context.Context, _, i int) (err error) {
		r := &all[i]
		if r.keyRequest, err = newKeyRequest("bench"); err != nil {
			return err
		}
		if r.body, err = json.Marshal(controlapi.RenewRequest{CSR: string(r.csr)}); err != nil {
			return err
		}
		r.proof, err = proofHeader(holders[i], holderproof.Request{Method: http.MethodPost, Route: controlapi.RouteRenew, Body: r.body}, time.Now())
		return err
	})
}

// compare lets the two servers take turns and prints each pair and the median.
func (s *server) compare(ctx context.Context, o Options, peer *stepCA, holders []controlclient.Holder, title string, fresh bool) error {
	const columns = "/s  p50 ms  p99 ms  server  client"
	o.printf("\n%s\n%6s  %40s  %40s  %6s\n%6s  %40s  %40s\n", title, "pair", "ikhnos", "step-ca", "ratio", "", columns, columns)
	var ours, theirs, ratios []float64
	each := len(holders) / o.Pairs
	for pair := range o.Pairs {
		mine, err := s.renewTurn(ctx, o, holders[pair*each:(pair+1)*each], fresh)
		if err != nil {
			return err
		}
		ours = append(ours, mine.rate())
		if peer == nil {
			o.printf("%6d  %s\n", pair+1, mine.columns())
			continue
		}
		other, err := peer.rekeyTurn(ctx, o, max(each*renewalsEach/o.Peer, 1), fresh)
		if err != nil {
			return err
		}
		theirs, ratios = append(theirs, other.rate()), append(ratios, mine.rate()/other.rate())
		o.printf("%6d  %s  %s  %6.2f\n", pair+1, mine.columns(), other.columns(), mine.rate()/other.rate())
	}
	if peer != nil {
		o.printf("%6s  %8.0f  %40.0f  %40.2f\n", "median", median(ours), median(theirs), median(ratios))
	}
	return nil
}

func (r result) columns() string {
	return fmt.Sprintf("%8.0f%8.1f%8.1f%8.0f%8.0f", r.rate(), ms(r.quantile(0.5)), ms(r.quantile(0.99)), r.cost(r.server), r.cost(r.generator))
}

// renewTurn renews each sender's leaf renewalsEach times, each leaf by the one
// before it: all senders once, then all of them again. What clients do in advance
// or each on its own machine is not timed: keys, requests, proofs, and reading the
// certificate in the answer.
func (s *server) renewTurn(ctx context.Context, o Options, holders []controlclient.Holder, fresh bool) (result, error) {
	conns, closeAll := s.conns(o.Workers, fresh)
	defer closeAll()
	var turn result
	answers := make([][]byte, len(holders))
	for range renewalsEach {
		renewals, err := newRenewals(ctx, holders)
		if err != nil {
			return turn, err
		}
		round, err := measure(ctx, s.Process, o.Workers, len(holders), func(ctx context.Context, worker, i int, done func(time.Time)) (err error) {
			began := time.Now()
			if answers[i], err = conns[worker].call(ctx, controlapi.RouteRenew, renewals[i].proof, renewals[i].body); err == nil {
				done(began)
			}
			return err
		})
		if err != nil {
			return turn, err
		}
		turn.add(round)
		for i, answer := range answers {
			var certificate controlapi.Certificate
			if err := json.Unmarshal(answer, &certificate); err != nil {
				return turn, err
			}
			if holders[i], err = holderOf(&certificate, renewals[i].keyRequest); err != nil {
				return turn, err
			}
		}
	}
	return turn, nil
}

// printSyncs counts what each server makes durable, and how often.
func (s *server) printSyncs(ctx context.Context, o Options, peer *stepCA, holders []controlclient.Holder) error {
	ours, err := countSyncs(ctx, s.Process, s.dir, func() error {
		_, err := s.renewTurn(ctx, o, holders, false)
		return err
	})
	if errors.Is(err, errUntraced) {
		o.printf("\nfsync was not counted: %v\n", err)
		return nil
	}
	if err != nil {
		return err
	}
	o.printf("\nfsync and fdatasync calls per certificate at %d workers (strace): ikhnos %.2f", o.Workers, float64(ours)/tracedRequests)
	if peer != nil {
		theirs, err := countSyncs(ctx, peer.Process, peer.dir, func() error {
			_, err := peer.rekeyTurn(ctx, o, tracedRequests, false)
			return err
		})
		if err != nil {
			return err
		}
		o.printf(", step-ca %.2f", float64(theirs)/tracedRequests)
	}
	o.printf("\nBoth answer only after the disk has confirmed. ikhnos: SQLite WAL, synchronous=FULL, those who wait share a commit.\n" +
		"step-ca: bbolt with its defaults, two fdatasync a transaction.\n")
	return nil
}
