// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certnameauth

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/ikhnos/continuum/internal/controlapi"
)

// observe registers the metrics that are read when somebody asks. Those of a
// policy are absent while there is none.
func (e *certNameAuth) observe() error {
	t := e.telemetry
	return errors.Join(
		t.RegisterExtensionCertnameauthSendersCallback(e.observeSenders),
		t.RegisterExtensionCertnameauthRevokedSerialsCallback(e.observeRevoked),
		t.RegisterExtensionCertnameauthSenderLeafExpiryCallback(e.observeLeaves),
		t.RegisterExtensionCertnameauthPolicyAgeCallback(e.observeAge),
		t.RegisterExtensionCertnameauthPolicyNumberCallback(e.observeNumber),
	)
}

func (e *certNameAuth) observeSenders(_ context.Context, o metric.Int64Observer) error {
	counts := map[controlapi.SenderState]int64{controlapi.SenderAllowed: 0, controlapi.SenderHeld: 0, controlapi.SenderRevoked: 0}
	for _, sender := range e.gate.list.Load().Senders() {
		state := sender.State
		if _, known := counts[state]; !known {
			state = controlapi.SenderRevoked
		}
		counts[state]++
	}
	for state, n := range counts {
		o.Observe(n, metric.WithAttributes(attribute.String("state", string(state))))
	}
	return nil
}

func (e *certNameAuth) observeRevoked(_ context.Context, o metric.Int64Observer) error {
	policy, crl := e.gate.list.Load().RevokedSerials()
	o.Observe(int64(policy), metric.WithAttributes(attribute.String("source", "policy")))
	o.Observe(int64(crl), metric.WithAttributes(attribute.String("source", "crl")))
	return nil
}

func (e *certNameAuth) observeLeaves(_ context.Context, o metric.Int64Observer) error {
	for _, sender := range e.gate.list.Load().Senders() {
		if expiry := sender.Stats.LeafExpiry(); expiry != 0 {
			o.Observe(expiry, metric.WithAttributes(attribute.String("sender", sender.Name)))
		}
	}
	return nil
}

func (e *certNameAuth) observeAge(_ context.Context, o metric.Int64Observer) error {
	if state := e.keeper.snapshot().state; state != nil && !state.Contact.IsZero() {
		o.Observe(int64(e.now().Sub(state.Contact).Seconds()))
	}
	return nil
}

func (e *certNameAuth) observeNumber(_ context.Context, o metric.Int64Observer) error {
	if state := e.keeper.snapshot().state; state != nil {
		o.Observe(state.Policy.Number)
	}
	return nil
}
