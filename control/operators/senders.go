// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package operators

import (
	"context"
	"fmt"
	"strings"

	"github.com/ikhnos/continuum/control/audit"
	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/identity"
)

// ConnectSender lets a holder send to an operator, or records the address that an
// existing connection dials. A cluster must be approved; an operator is connected
// by its creation and can be named here only to change its address. A revoked
// connection does not come back this way: see RestoreSender.
func (s *Service) ConnectSender(ctx context.Context, a Actor, operatorID, holderID string, r SenderRequest) (sender Sender, created bool, err error) {
	var f faults
	f.operatorID("id", operatorID)
	f.holderID("holder", holderID)
	address := f.dialAddress("address", r.Address)
	if err := f.problem(); err != nil {
		return Sender{}, false, err
	}
	err = s.update(ctx, a, func(c *change) error {
		op, err := activeOperator(c.Tx, a.OrgID, operatorID)
		if err != nil {
			return err
		}
		labels, err := c.holderLabels(holderID)
		if err != nil {
			return err
		}
		sender, err = senderRow(c.Tx, a.OrgID, operatorID, holderID)
		if created = isReason(err, controlapi.ReasonNotFound); created {
			sender, err = c.connectNew(op, holderID, address)
		} else if err == nil {
			err = c.readdress(&sender, address)
		}
		sender.Warnings = sameLabels(op.Labels, labels)
		return err
	})
	if err != nil {
		return Sender{}, false, err
	}
	return sender, created, nil
}

// holderLabels returns the labels of a cluster; an operator's own are stamped
// over its data anyway.
func (c *change) holderLabels(holderID string) (map[string]string, error) {
	if strings.HasPrefix(holderID, operatorPrefix) {
		_, err := operatorRow(c.Tx, c.actor.OrgID, holderID)
		return nil, err
	}
	cluster, err := clusterRow(c.Tx, c.actor.OrgID, holderID)
	if err == nil && cluster.State != ClusterApproved {
		err = notApproved(cluster)
	}
	return cluster.Labels, err
}

func (c *change) connectNew(op Operator, holderID, address string) (Sender, error) {
	if strings.HasPrefix(holderID, operatorPrefix) {
		return Sender{}, problem(controlapi.ReasonDestinationNotAllowed, "Operator "+holderID+" sends to the destination that it was created with, which is not "+op.ID+".")
	}
	since, err := c.next(op.ID, op.destinationOperator())
	if err != nil {
		return Sender{}, err
	}
	return c.connect(op.ID, holderID, controlapi.KindCluster, address, since)
}

// connect enters a sender. The caller has drawn since for every operator whose
// policy shows it.
func (c *change) connect(operatorID, holderID string, kind controlapi.Kind, address string, since controlapi.Version) (Sender, error) {
	s := Sender{
		Name: identity.SenderName(operatorID, holderID), HolderID: holderID, Kind: kind, OperatorID: operatorID,
		OrgID: c.actor.OrgID, State: controlapi.SenderAllowed, Address: address, CreatedAt: c.Now(),
	}
	if kind == controlapi.KindCluster {
		s.ClusterID = holderID
	}
	_, err := c.Exec(`DELETE FROM senders WHERE operator_id = $1 AND holder_id = $2 AND removed_at IS NOT NULL`, operatorID, holderID)
	if err != nil {
		return Sender{}, fmt.Errorf("deleting a removed sender: %w", err)
	}
	_, err = c.Exec(`INSERT INTO senders (operator_id, holder_id, name, kind, org_id, state, since_epoch, since_number,
		address, replaced_serials, receipt_id, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, '[]', '', $10)`,
		operatorID, holderID, s.Name, string(kind), s.OrgID, string(s.State), since.Epoch, since.Number, address, s.CreatedAt.Unix())
	if err != nil {
		return Sender{}, fmt.Errorf("writing a sender: %w", err)
	}
	return s, c.record(audit.SenderConnected, s.Name, map[string]any{"kind": string(kind), "address": address})
}

// readdress changes what an existing connection dials.
func (c *change) readdress(s *Sender, address string) error {
	if s.State == controlapi.SenderRevoked {
		return problem(controlapi.ReasonStateConflict, "Sender "+s.Name+" was revoked, and only a restore lets it in again.")
	}
	if s.Address == address {
		return nil
	}
	old := s.Address
	s.Address = address
	_, err := c.Exec(`UPDATE senders SET address = $1 WHERE operator_id = $2 AND holder_id = $3`, address, s.OperatorID, s.HolderID)
	if err != nil {
		return fmt.Errorf("recording a sender's address: %w", err)
	}
	return c.record(audit.SenderUpdated, s.Name, map[string]any{"address": address, "previousAddress": old})
}

// GetSender returns one sender of an operator.
func (s *Service) GetSender(ctx context.Context, a Actor, operatorID, holderID string) (sender Sender, err error) {
	err = s.store.View(ctx, func(tx *ledger.Tx) error {
		sender, err = senderRow(tx, a.OrgID, operatorID, holderID)
		return err
	})
	return sender, err
}

// ListSenders lists the senders of one operator, not_found without it.
func (s *Service) ListSenders(ctx context.Context, a Actor, operatorID string, p Page) (List[Sender], error) {
	return s.findSenders(ctx, a, SenderFilter{OperatorID: operatorID}, p, true)
}

// SenderFilter chooses senders; empty fields do not restrict. What does not exist
// in the organisation finds nothing.
type SenderFilter struct {
	OperatorID string
	HolderID   string
	State      controlapi.SenderState
}

// FindSenders lists the senders of the whole organisation that a filter chooses.
func (s *Service) FindSenders(ctx context.Context, a Actor, f SenderFilter, p Page) (List[Sender], error) {
	return s.findSenders(ctx, a, f, p, false)
}

func (s *Service) findSenders(ctx context.Context, a Actor, f SenderFilter, p Page, mustExist bool) (list List[Sender], err error) {
	limit, cursor, err := p.bounds()
	if err != nil {
		return list, err
	}
	afterOperator, afterHolder, ok := strings.Cut(cursor, "/")
	if cursor != "" && !ok {
		return list, problem(controlapi.ReasonRequestMalformed, badCursor)
	}
	err = s.store.View(ctx, func(tx *ledger.Tx) error {
		if mustExist {
			if _, err := operatorRow(tx, a.OrgID, f.OperatorID); err != nil {
				return err
			}
		}
		senders, err := collect(tx, scanSender, selectSender+` WHERE s.org_id = $1 AND s.removed_at IS NULL AND o.state <> 'deleted'
			AND (s.operator_id > $2 OR s.operator_id = $2 AND s.holder_id > $3)
			AND ($4 = '' OR s.operator_id = $4) AND ($5 = '' OR s.holder_id = $5) AND ($6 = '' OR s.state = $6)
			ORDER BY s.operator_id, s.holder_id LIMIT $7`,
			a.OrgID, afterOperator, afterHolder, f.OperatorID, f.HolderID, string(f.State), limit+1)
		list = listOf(senders, limit, func(s Sender) string { return s.OperatorID + "/" + s.HolderID })
		return err
	})
	return list, err
}

// AllSenders are the senders of every organisation, for metrics.
func AllSenders(tx *ledger.Tx) ([]Sender, error) {
	senders, err := collect(tx, scanSender, selectSender+` WHERE s.removed_at IS NULL AND o.state <> 'deleted'
		ORDER BY s.operator_id, s.holder_id`)
	if err != nil {
		return nil, fmt.Errorf("listing senders: %w", err)
	}
	return senders, nil
}

const selectSender = `SELECT s.name, s.holder_id, s.kind, s.operator_id, s.org_id, s.state, s.address, s.receipt_id,
	s.created_at, s.replaced_serials, COALESCE(s.replaced_until, 0), o.destination_operator
	FROM senders s JOIN operators o ON o.id = s.operator_id`

func senderRow(tx *ledger.Tx, orgID, operatorID, holderID string) (Sender, error) {
	if unusable(operatorID) || unusable(holderID) {
		return Sender{}, notFound(whatSender)
	}
	s, err := scanSender(tx.QueryRow(selectSender+` WHERE s.org_id = $1 AND s.operator_id = $2 AND s.holder_id = $3
		AND s.removed_at IS NULL AND o.state <> 'deleted'`, orgID, operatorID, holderID))
	return s, rowError(err, whatSender)
}

func scanSender(r scanner) (s Sender, err error) {
	var created int64
	var replaced string
	err = r.Scan(&s.Name, &s.HolderID, &s.Kind, &s.OperatorID, &s.OrgID, &s.State, &s.Address, &s.ReceiptID,
		&created, &replaced, &s.replacedUntil, &s.upstream)
	if err != nil {
		return s, err
	}
	s.CreatedAt = seconds(created)
	if s.Kind == controlapi.KindCluster {
		s.ClusterID = s.HolderID
	}
	return s, fromJSON(replaced, &s.replaced)
}
