// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package operators

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/ikhnos/continuum/control/audit"
	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// GetOperator returns one operator; a deleted one is not_found.
func (s *Service) GetOperator(ctx context.Context, a Actor, id string) (op Operator, err error) {
	err = s.store.View(ctx, func(tx *ledger.Tx) error {
		op, err = operatorRow(tx, a.OrgID, id)
		return err
	})
	return op, err
}

// OperatorFilter chooses operators; empty fields do not restrict.
type OperatorFilter struct {
	State OperatorState
	Role  OperatorRole
}

// ListOperators lists the operators of the actor's organisation by id.
func (s *Service) ListOperators(ctx context.Context, a Actor, f OperatorFilter, p Page) (list List[Operator], err error) {
	limit, after, err := p.bounds()
	if err != nil {
		return list, err
	}
	err = s.store.View(ctx, func(tx *ledger.Tx) error {
		ops, err := collect(tx, scanOperator, selectOperator+` WHERE org_id = $1 AND state <> 'deleted' AND id > $2
			AND ($3 = '' OR state = $3) AND ($4 = '' OR role = $4) ORDER BY id LIMIT $5`,
			a.OrgID, after, string(f.State), string(f.Role), limit+1)
		list = listOf(ops, limit, func(o Operator) string { return o.ID })
		return err
	})
	return list, err
}

// SetAddress records where senders elsewhere dial an operator; an empty address
// forgets it. Commands that were handed out keep the old one (AD-23).
func (s *Service) SetAddress(ctx context.Context, a Actor, id string, r AddressRequest) (op Operator, err error) {
	var f faults
	address := f.dialAddress("address", r.Address)
	if err := f.problem(); err != nil {
		return Operator{}, err
	}
	err = s.update(ctx, a, func(c *change) error {
		op, err = activeOperator(c.Tx, a.OrgID, id)
		if err != nil || op.Address == address {
			return err
		}
		old := op.Address
		op.Address = address
		if _, err := c.Exec(`UPDATE operators SET address = $1 WHERE id = $2`, address, id); err != nil {
			return fmt.Errorf("recording an address: %w", err)
		}
		return c.record(audit.OperatorAddressChanged, id, map[string]any{"address": address, "previousAddress": old}) // AD-16
	})
	if err != nil {
		return Operator{}, err
	}
	return op, nil
}

// dialAddress checks an optional address.
func (f *faults) dialAddress(field, text string) string {
	if text == "" {
		return ""
	}
	address, err := dialAddress(text)
	if err != nil {
		f.add(field, "%s", err)
	}
	return address
}

// RecordReissue writes the audit line of an install that was printed again with
// fresh secrets (IN-13); keys says whether private keys were among them.
func (s *Service) RecordReissue(ctx context.Context, a Actor, id string, keys KeySource) error {
	return s.update(ctx, a, func(c *change) error {
		if _, err := activeOperator(c.Tx, a.OrgID, id); err != nil {
			return err
		}
		return c.record(audit.OperatorInstallReissued, id, map[string]any{"keys": string(keys)})
	})
}

const selectOperator = `SELECT id, name, role, destination_kind, destination_endpoint, destination_operator, labels,
	source_clusters, address, exposure, heartbeat, heartbeat_hash, state, created_at, revoked_at FROM operators`

func operatorRow(tx *ledger.Tx, orgID, id string) (Operator, error) {
	if unusable(id) {
		return Operator{}, notFound(whatOperator)
	}
	op, err := scanOperator(tx.QueryRow(selectOperator+` WHERE org_id = $1 AND id = $2 AND state <> 'deleted'`, orgID, id))
	return op, rowError(err, whatOperator)
}

// activeOperator answers operator_revoked for one that was revoked.
func activeOperator(tx *ledger.Tx, orgID, id string) (Operator, error) {
	op, err := operatorRow(tx, orgID, id)
	if err == nil && op.State != OperatorActive {
		detail := "Operator " + op.ID + " was revoked and its CA key is erased; a revoked operator does not come back."
		if op.RevokedAt != nil {
			detail = "Operator " + op.ID + " was revoked on " + moment(*op.RevokedAt) + " and its CA key is erased; a revoked operator does not come back."
		}
		err = problem(controlapi.ReasonOperatorRevoked, detail)
	}
	return op, err
}

func scanOperator(r scanner) (o Operator, err error) {
	var d Destination
	var labels, sources string
	var created int64
	var revoked sql.NullInt64
	var heartbeat []byte
	err = r.Scan(&o.ID, &o.Name, &o.Role, &d.Kind, &d.Endpoint, &d.OperatorID, &labels, &sources, &o.Address,
		&o.Exposure, &o.Heartbeat, &heartbeat, &o.State, &created, &revoked)
	if err != nil {
		return o, err
	}
	if d.Kind != "" {
		o.Destination = &d
	}
	o.ClientCAScope, o.ReceiverAuth = ScopeOperator, AuthMTLS
	o.HeartbeatMinted = len(heartbeat) > 0
	o.CreatedAt, o.RevokedAt = seconds(created), optionalSeconds(revoked)
	if err := fromJSON(labels, &o.Labels); err != nil {
		return o, err
	}
	return o, fromJSON(sources, &o.SourceClusterIDs)
}
