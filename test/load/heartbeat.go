// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package load

import (
	"context"
	"fmt"
	"time"

	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/controlclient"
)

// beatWorkers is how many beats are under way at a time.
const beatWorkers = 32

// beater is one operator with a connection of its own.
type beater struct {
	client *controlclient.Client
	secret string
}

// heartbeatPart keeps o.Beating connections open and sends heartbeats over them
// as fast as they are answered: first one of each operator, every one of which
// the server makes durable, then for o.BeatFor, of which it writes one per
// operator in 15 s.
func heartbeatPart(ctx context.Context, o Options) error {
	s, err := startServer(ctx, o, onThisDisk)
	if err != nil {
		return err
	}
	defer s.Stop()
	all := make([]beater, o.Beating)
	if err := parallel(ctx, setupWorkers, o.Beating, func(ctx context.Context, _, i int) error {
		id := fmt.Sprintf("op-h%d", i)
		if err := s.putOperator(ctx, id, operators.SwitchOn); err != nil {
			return err
		}
		secret, err := s.api.MintHeartbeat(ctx, id)
		if err != nil {
			return err
		}
		client, _, err := s.client() // its connection ends with the process
		all[i] = beater{client, secret.Secret}
		return err
	}); err != nil {
		return err
	}
	o.printf("\nHeartbeats, %d operators, a kept TLS connection each, %d under way at a time\n", o.Beating, beatWorkers)
	first, err := s.beat(ctx, all, len(all))
	if err != nil {
		return err
	}
	o.printf("%-44s %.0f/s, p50 %.1f ms, p99 %.1f ms\n", "first of each, with its TLS handshake, durable:", first.rate(), ms(first.quantile(0.5)), ms(first.quantile(0.99)))
	var more result
	for more.took < o.BeatFor {
		round, err := s.beat(ctx, all, len(all))
		if err != nil {
			return err
		}
		more.add(round)
	}
	o.printf("%-44s %.0f/s, p50 %.1f ms, p99 %.1f ms\n", "from then on:", more.rate(), ms(more.quantile(0.5)), ms(more.quantile(0.99)))
	now, peak, err := s.Memory()
	o.printf("%-44s %.0f MiB now, %.0f MiB at most\n", "resident memory:", mib(now), mib(peak))
	return err
}

// beat sends n heartbeats, in turn over the connections.
func (s *server) beat(ctx context.Context, all []beater, n int) (result, error) {
	started := time.Now().UTC().Truncate(time.Second)
	return measure(ctx, s.Process, beatWorkers, n, func(ctx context.Context, _, i int, done func(time.Time)) error {
		body := &controlapi.Heartbeat{
			Version: "bench", Instance: "bench", StartedAt: started, Status: controlapi.HealthOK,
			Certificates: []controlapi.HeartbeatCertificate{},
		}
		began := time.Now()
		if err := all[i%len(all)].client.Heartbeat(ctx, all[i%len(all)].secret, body); err != nil {
			return err
		}
		done(began)
		return nil
	})
}
