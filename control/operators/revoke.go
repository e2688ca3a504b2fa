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

// RevokeSender cuts a sender off. With reason hold it only denies: the leaf works
// again after RestoreSender. Otherwise all living leaves and whatever was renewed
// from them are revoked for good and its open tokens die. A repeated call answers
// the first receipt; a hold on what is revoked is state_conflict.
func (s *Service) RevokeSender(ctx context.Context, a Actor, operatorID, holderID string, r RevokeRequest) (receipt *controlapi.Receipt, err error) {
	var f faults
	oneOf(&f, "reason", r.Reason, RevokeCompromised, RevokeRetired, RevokeHold)
	f.note("note", r.Note)
	if err := f.problem(); err != nil {
		return nil, err
	}
	err = s.update(ctx, a, func(c *change) error {
		sender, err := c.senderToRevoke(operatorID, holderID)
		if err != nil {
			return err
		}
		repeated := sender.State == controlapi.SenderRevoked || sender.State == controlapi.SenderHeld && r.Reason == RevokeHold
		switch {
		case sender.State == controlapi.SenderRevoked && r.Reason == RevokeHold:
			return problem(controlapi.ReasonStateConflict, "Sender "+sender.Name+" is revoked already, which is more than a hold.")
		case repeated && sender.ReceiptID != "": // there is none when its operator brought the denial back
			receipt, err = ReadReceipt(c.Tx, a.OrgID, sender.ReceiptID)
			return err
		}
		if _, err := activeOperator(c.Tx, a.OrgID, operatorID); err != nil {
			return err
		}
		receipt, err = s.revokeSender(c, sender, r)
		return err
	})
	return receipt, err
}

func (s *Service) revokeSender(c *change, sender Sender, r RevokeRequest) (*controlapi.Receipt, error) {
	receipt, cut, err := s.cutOff(c, "sender "+sender.Name, []Sender{sender}, r.Reason)
	if err != nil {
		return nil, err
	}
	event := audit.SenderRevoked
	if r.Reason == RevokeHold {
		event = audit.SenderHeld
	}
	return receipt, c.record(event, sender.Name, map[string]any{
		"reason": string(r.Reason), "note": r.Note, "receiptId": receipt.ReceiptID,
		"leaves": cut.leaves, "tokens": cut.tokens,
	})
}

// counts says what died with a cut-off.
type counts struct{ leaves, tokens int64 }

// cutOff denies senders and, unless it is a hold, revokes their leaves and ends
// their tokens: one change number, one receipt.
func (s *Service) cutOff(c *change, subject string, senders []Sender, reason RevokeReason) (*controlapi.Receipt, counts, error) {
	var total counts
	var concerned []string
	confirm := map[string]string{}
	for _, sender := range senders {
		concerned = append(concerned, sender.OperatorID, sender.upstream)
		confirm[sender.OperatorID] = sender.Name
		cut, err := c.cutLeaves(sender, reason)
		if err != nil {
			return nil, total, err
		}
		total.leaves += cut.leaves
		total.tokens += cut.tokens
	}
	version, err := c.next(concerned...)
	if err != nil {
		return nil, total, err
	}
	receipt, err := c.newReceipt(subject, version, confirm, s.now())
	if err != nil {
		return nil, total, err
	}
	state := controlapi.SenderRevoked
	if reason == RevokeHold {
		state = controlapi.SenderHeld
	}
	for _, sender := range senders {
		if err := c.setSenderState(sender, state, version, receipt.ReceiptID); err != nil {
			return nil, total, err
		}
	}
	return receipt, total, nil
}

// cutLeaves revokes what a sender holds; a hold leaves it a line in the ledger
// alone.
func (c *change) cutLeaves(sender Sender, reason RevokeReason) (counts, error) {
	if reason == RevokeHold {
		_, err := c.Append(sender.OperatorID, map[string]any{"type": ledger.EventHeld, "holder": sender.Name})
		if err != nil {
			return counts{}, fmt.Errorf("recording a hold: %w", err)
		}
		return counts{}, nil
	}
	serials, err := c.RevokeHolder(sender.OperatorID, sender.Name, string(controlapi.RoleSender), string(reason))
	if err != nil {
		return counts{}, fmt.Errorf("revoking a sender's leaves: %w", err)
	}
	tokens, err := c.killTokens(sender.OperatorID, controlapi.RoleSender, sender.HolderID)
	return counts{leaves: int64(len(serials)), tokens: tokens}, err
}

// setSenderState ends a rekey in progress with a revocation, which ends its old
// leaves too; a hold leaves it as it is, or they would outlive their overlap. An
// empty receipt keeps the one of the last revocation.
func (c *change) setSenderState(s Sender, state controlapi.SenderState, since controlapi.Version, receiptID string) error {
	_, err := c.Exec(`UPDATE senders SET state = $1, since_epoch = $2, since_number = $3, receipt_id = $4,
		replaced_serials = CASE WHEN $1 = 'revoked' THEN '[]' ELSE replaced_serials END,
		replaced_until = CASE WHEN $1 = 'revoked' THEN NULL ELSE replaced_until END
		WHERE operator_id = $5 AND holder_id = $6`,
		string(state), since.Epoch, since.Number, orDefault(receiptID, s.ReceiptID), s.OperatorID, s.HolderID)
	if err != nil {
		return fmt.Errorf("writing a sender's state: %w", err)
	}
	return nil
}

// RestoreSender lets a sender in again. One that was on hold goes on with its
// leaf; one that was revoked gets a new enrolment token, because its leaves stay
// revoked. Restoring what is allowed changes nothing.
func (s *Service) RestoreSender(ctx context.Context, a Actor, operatorID, holderID string) (answer SenderToken, err error) {
	err = s.update(ctx, a, func(c *change) error {
		sender, err := senderRow(c.Tx, a.OrgID, operatorID, holderID)
		answer = SenderToken{Name: sender.Name}
		if err != nil || sender.State == controlapi.SenderAllowed {
			return err
		}
		op, err := activeOperator(c.Tx, a.OrgID, operatorID)
		if err != nil {
			return err
		}
		if err := c.holderInForce(sender); err != nil {
			return err
		}
		since, err := c.next(operatorID, op.destinationOperator())
		if err != nil {
			return err
		}
		if err := c.setSenderState(sender, controlapi.SenderAllowed, since, ""); err != nil {
			return err
		}
		if _, err := c.Append(operatorID, map[string]any{"type": ledger.EventRestored, "holder": sender.Name}); err != nil {
			return fmt.Errorf("recording a restore: %w", err)
		}
		if err := c.record(audit.SenderRestored, sender.Name, map[string]any{"previousState": string(sender.State)}); err != nil {
			return err
		}
		if sender.State == controlapi.SenderHeld {
			return nil
		}
		token, err := c.mintToken(operatorID, controlapi.RoleSender, sender.HolderID, sender.Name, defaultTTL)
		answer.Token = token.Token
		return err
	})
	if err != nil {
		return SenderToken{}, err
	}
	return answer, nil
}

// holderInForce demands that a sender's cluster is approved, or its operator
// active.
func (c *change) holderInForce(s Sender) error {
	if s.Kind == controlapi.KindOperator {
		_, err := activeOperator(c.Tx, c.actor.OrgID, s.HolderID)
		return err
	}
	cluster, err := clusterRow(c.Tx, c.actor.OrgID, s.HolderID)
	if err == nil && cluster.State != ClusterApproved {
		err = notApproved(cluster)
	}
	return err
}
