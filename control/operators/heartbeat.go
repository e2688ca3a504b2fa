// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package operators

import (
	"context"
	"fmt"

	"github.com/ikhnos/continuum/control/audit"
	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// MintHeartbeat makes the secret with which an operator's heartbeats come, and
// turns them on. An earlier secret is dead at once (HB-16, HB-17). The secret is in
// the answer alone and opens nothing else (HB-10, HB-11).
func (s *Service) MintHeartbeat(ctx context.Context, a Actor, operatorID string) (answer HeartbeatSecret, err error) {
	err = s.update(ctx, a, func(c *change) error {
		op, err := activeOperator(c.Tx, a.OrgID, operatorID)
		if err != nil {
			return err
		}
		answer.Secret = controlapi.NewSecret(controlapi.SecretHeartbeat, nil)
		_, err = c.Exec(`UPDATE operators SET heartbeat = 'on', heartbeat_hash = $1 WHERE id = $2`,
			controlapi.HashSecret(answer.Secret), operatorID)
		if err != nil {
			return fmt.Errorf("writing a heartbeat secret: %w", err)
		}
		event := audit.OperatorHeartbeatEnabled
		if op.HeartbeatMinted {
			event = audit.OperatorHeartbeatRotated // HB-18
		}
		return c.record(event, operatorID, nil)
	})
	if err != nil {
		return HeartbeatSecret{}, err
	}
	return answer, nil
}

// HeartbeatOperator returns the active operator that a heartbeat secret belongs
// to. Every other secret, a revoked operator's included, is the same
// heartbeat_unauthorized (HB-22, RV-10).
func (s *Service) HeartbeatOperator(ctx context.Context, secret string) (operatorID string, err error) {
	canonical, _, err := controlapi.ParseSecret(controlapi.SecretHeartbeat, secret)
	if err != nil {
		return "", problem(controlapi.ReasonHeartbeatUnauthorized, "")
	}
	err = s.store.View(ctx, func(tx *ledger.Tx) error {
		err := tx.QueryRow(`SELECT id FROM operators WHERE heartbeat_hash = $1 AND state = 'active'`,
			controlapi.HashSecret(canonical)).Scan(&operatorID)
		if err := rowError(err, whatOperator); isReason(err, controlapi.ReasonNotFound) {
			return problem(controlapi.ReasonHeartbeatUnauthorized, "")
		} else if err != nil {
			return err
		}
		return nil
	})
	return operatorID, err
}
