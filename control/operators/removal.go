// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package operators

import (
	"context"
	"fmt"

	"github.com/ikhnos/continuum/control/audit"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// RemovalRequest revokes or deletes an operator. Force goes on although something
// depends on it; Note is free text for the audit trail.
type RemovalRequest struct {
	Force bool
	Note  string
}

// RevokeOperator ends an operator for good: its leaves and its entry at its
// destination are revoked, its tokens die, a last policy (deny all) and a last CRL
// are signed, then its CA key is erased (PK-9). While something depends on it the
// answer is in_use (RV-1), unless forced. A repeated call answers the first
// receipt.
func (s *Service) RevokeOperator(ctx context.Context, a Actor, id string, r RemovalRequest) (Removal, error) {
	return s.removeOperator(ctx, a, id, r, OperatorRevoked)
}

// DeleteOperator revokes an operator and takes it off every list. A tombstone
// with its CA certificate, last policy, last CRL and ledger stays, and its id is
// never used again.
func (s *Service) DeleteOperator(ctx context.Context, a Actor, id string, r RemovalRequest) (Removal, error) {
	return s.removeOperator(ctx, a, id, r, operatorDeleted)
}

func (s *Service) removeOperator(ctx context.Context, a Actor, id string, r RemovalRequest, state OperatorState) (answer Removal, err error) {
	var f faults
	f.note("note", r.Note)
	if err := f.problem(); err != nil {
		return Removal{}, err
	}
	err = s.update(ctx, a, func(c *change) error {
		op, err := operatorRow(c.Tx, a.OrgID, id)
		if err != nil {
			return err
		}
		var receipt *controlapi.Receipt
		if op.State == OperatorRevoked {
			receipt, err = lastReceipt(c.Tx, a.OrgID, operatorSubject(id))
		} else {
			receipt, err = s.revokeOperator(c, op, r)
		}
		if err != nil {
			return err
		}
		answer = Removal{Receipt: *receipt, Uninstall: "helm uninstall " + id + " --namespace continuum-system"} // RV-7
		if state != operatorDeleted {
			return nil
		}
		return c.buryOperator(id)
	})
	if err != nil {
		return Removal{}, err
	}
	return answer, nil
}

func (s *Service) revokeOperator(c *change, op Operator, r RemovalRequest) (*controlapi.Receipt, error) {
	dependents, err := c.dependents(op.ID)
	if err != nil {
		return nil, err
	}
	if !r.Force && (len(dependents.Operators) > 0 || dependents.Clusters > 0) {
		p := controlapi.NewProblem(controlapi.ReasonInUse, "Operator "+op.ID+" still takes data from "+
			count(len(dependents.Operators), "operator")+" and "+count(dependents.Clusters, "cluster")+", which would be refused.")
		p.Dependents = dependents
		return nil, p
	}
	serials, err := c.RevokeAll(op.ID, "operator_revoked")
	if err != nil {
		return nil, fmt.Errorf("revoking an operator's leaves: %w", err)
	}
	tokens, err := c.Exec(`UPDATE enrollment_tokens SET state = 'revoked' WHERE operator_id = $1 AND state = 'open'`, op.ID)
	if err != nil {
		return nil, fmt.Errorf("ending an operator's tokens: %w", err)
	}
	_, err = c.Exec(`UPDATE operators SET state = $1, revoked_at = $2 WHERE id = $3`,
		string(OperatorRevoked), c.Now().Unix(), op.ID)
	if err != nil {
		return nil, fmt.Errorf("revoking an operator: %w", err)
	}
	receipt, err := s.leaveDestination(c, op)
	if err != nil {
		return nil, err
	}
	if err := s.lastThings(c, op.ID); err != nil {
		return nil, err
	}
	ended, err := tokens.RowsAffected()
	if err != nil {
		return nil, fmt.Errorf("ending an operator's tokens: %w", err)
	}
	return receipt, c.record(audit.OperatorRevoked, op.ID, map[string]any{
		"note": r.Note, "force": r.Force, "receiptId": receipt.ReceiptID, "leaves": len(serials), "tokens": ended,
		"operators": len(dependents.Operators), "clusters": dependents.Clusters, // RV-3
	})
}

// leaveDestination revokes the operator's entry at its destination and makes the
// receipt that both confirm.
func (s *Service) leaveDestination(c *change, op Operator) (*controlapi.Receipt, error) {
	confirm := map[string]string{op.ID: ""}
	entry, err := senderRow(c.Tx, c.actor.OrgID, op.destinationOperator(), op.ID)
	gone := isReason(err, controlapi.ReasonNotFound) || err == nil && entry.State == controlapi.SenderRevoked
	switch {
	case gone:
		entry = Sender{}
	case err != nil:
		return nil, err
	default:
		confirm[entry.OperatorID] = entry.Name
		if _, err := c.cutLeaves(entry, RevokeRetired); err != nil {
			return nil, err
		}
	}
	version, err := c.next(op.ID, entry.OperatorID)
	if err != nil {
		return nil, err
	}
	receipt, err := c.newReceipt(operatorSubject(op.ID), version, confirm, s.now())
	if err != nil || gone {
		return receipt, err
	}
	return receipt, c.setSenderState(entry, controlapi.SenderRevoked, version, receipt.ReceiptID)
}

// lastThings signs what the operator goes on answering with, keeps it, and erases
// the key, in this order.
func (s *Service) lastThings(c *change, id string) error {
	policy, crl, err := s.lastWords.Last(c.Tx, id)
	if err != nil {
		return fmt.Errorf("signing the last policy: %w", err)
	}
	if _, err := c.Exec(`UPDATE operators SET last_policy = $1, last_crl = $2 WHERE id = $3`, policy, crl, id); err != nil {
		return fmt.Errorf("keeping the last policy: %w", err)
	}
	if err := c.EraseCA(id); err != nil {
		return fmt.Errorf("erasing the CA key: %w", err)
	}
	return nil
}

// dependents are the senders that an operator still has, operators by name.
func (c *change) dependents(id string) (*controlapi.Dependents, error) {
	operators, err := collect(c.Tx, scanString, `SELECT o.name FROM senders s JOIN operators o ON o.id = s.holder_id
		WHERE s.operator_id = $1 AND s.kind = 'operator' AND s.state <> 'revoked' AND s.removed_at IS NULL AND o.state = 'active'
		ORDER BY o.name`, id)
	if err != nil {
		return nil, err
	}
	d := &controlapi.Dependents{Operators: operators}
	err = c.QueryRow(`SELECT COUNT(*) FROM senders WHERE operator_id = $1 AND kind = 'cluster' AND state <> 'revoked'
		AND removed_at IS NULL`, id).Scan(&d.Clusters)
	if err != nil {
		return nil, fmt.Errorf("counting dependents: %w", err)
	}
	return d, nil
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// buryOperator leaves the tombstone of a revoked operator.
func (c *change) buryOperator(id string) error {
	if _, err := c.Exec(`UPDATE operators SET state = $1 WHERE id = $2`, string(operatorDeleted), id); err != nil {
		return fmt.Errorf("deleting an operator: %w", err)
	}
	_, err := c.Exec(`UPDATE senders SET removed_at = $1 WHERE holder_id = $2 AND removed_at IS NULL`, c.Now().Unix(), id)
	if err != nil {
		return fmt.Errorf("removing an operator's connection: %w", err)
	}
	return c.record(audit.OperatorDeleted, id, nil)
}

func operatorSubject(id string) string { return "operator " + id }

// RevokeCertificate revokes one leaf and whatever was renewed from it. Its holder
// stays allowed. A repeated call answers the first receipt.
func (s *Service) RevokeCertificate(ctx context.Context, a Actor, operatorID, serial string, r NoteRequest) (receipt *controlapi.Receipt, err error) {
	var f faults
	f.note("note", r.Note)
	if err := f.problem(); err != nil {
		return nil, err
	}
	err = s.update(ctx, a, func(c *change) error {
		if _, err := operatorRow(c.Tx, a.OrgID, operatorID); err != nil {
			return err
		}
		holder, err := c.leafHolder(operatorID, serial)
		if err != nil {
			return err
		}
		subject := "certificate " + operatorID + " " + serial
		receipt, err = lastReceipt(c.Tx, a.OrgID, subject)
		if !isReason(err, controlapi.ReasonNotFound) {
			return err
		}
		if _, err := activeOperator(c.Tx, a.OrgID, operatorID); err != nil {
			return err
		}
		receipt, err = s.revokeLeaf(c, operatorID, serial, holder, subject, r.Note)
		return err
	})
	return receipt, err
}

// leafHolder is the name of the sender that a leaf was issued to, empty for a
// receiver.
func (c *change) leafHolder(operatorID, serial string) (string, error) {
	var holder, role string
	err := c.QueryRow(`SELECT holder, role FROM entries WHERE operator_id = $1 AND serial = $2`, operatorID, serial).
		Scan(&holder, &role)
	if role != string(controlapi.RoleSender) {
		holder = ""
	}
	return holder, rowError(err, whatEntry)
}

func (s *Service) revokeLeaf(c *change, operatorID, serial, holder, subject, note string) (*controlapi.Receipt, error) {
	serials, err := c.RevokeLeaf(operatorID, serial, "revoked")
	if err != nil {
		return nil, fmt.Errorf("revoking a leaf: %w", err)
	}
	version, err := c.next(operatorID)
	if err != nil {
		return nil, err
	}
	receipt, err := c.newReceipt(subject, version, map[string]string{operatorID: holder}, s.now())
	if err != nil {
		return nil, err
	}
	return receipt, c.record(audit.OperatorCertificateRevoked, serial, map[string]any{
		"operator": operatorID, "holder": orDefault(holder, operatorID), "note": note,
		"leaves": len(serials), "receiptId": receipt.ReceiptID,
	})
}
