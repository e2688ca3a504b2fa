// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package operators

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ikhnos/continuum/control/audit"
	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/internal/controlapi"
)

const (
	defaultOverlap = time.Hour
	minOverlap     = time.Second
	maxOverlap     = 30 * 24 * time.Hour
	reasonReplaced = "replaced"
)

// RekeySender answers a token for a new key while the old leaves live on, until
// the first request with a new one and at most for the overlap.
func (s *Service) RekeySender(ctx context.Context, a Actor, operatorID, holderID string, r RekeyRequest) (answer SenderToken, err error) {
	var f faults
	overlap := f.duration("overlap", orDefault(r.Overlap, formatDuration(defaultOverlap)), minOverlap, maxOverlap)
	if err := f.problem(); err != nil {
		return SenderToken{}, err
	}
	err = s.update(ctx, a, func(c *change) error {
		sender, err := senderRow(c.Tx, a.OrgID, operatorID, holderID)
		if err != nil {
			return err
		}
		if _, err := activeOperator(c.Tx, a.OrgID, operatorID); err != nil {
			return err
		}
		if err := c.mayEnrol(operatorID, holderID); err != nil {
			return err
		}
		if sender.replacedUntil > 0 && sender.replacedUntil <= c.Now().Unix() {
			// The last rekey is over: its leaves get no second overlap.
			if err := (&change{Tx: c.Tx, actor: Actor{Name: audit.ActorServer}}).endRekey(sender); err != nil {
				return err
			}
		}
		serials, err := c.livingSerials(sender)
		if err != nil {
			return err
		}
		until := c.Now().Add(overlap)
		if err := c.setReplaced(sender, serials, until); err != nil {
			return err
		}
		if _, err := c.next(operatorID); err != nil {
			return err
		}
		detail := map[string]any{"leaves": len(serials), "until": until.Format(time.RFC3339)}
		if err := c.record(audit.SenderRekeyed, sender.Name, detail); err != nil {
			return err
		}
		token, err := c.mintToken(operatorID, controlapi.RoleSender, holderID, sender.Name, defaultTTL)
		answer = SenderToken{Name: sender.Name, Token: token.Token}
		return err
	})
	if err != nil {
		return SenderToken{}, err
	}
	return answer, nil
}

func (c *change) livingSerials(s Sender) ([]string, error) {
	return collect(c.Tx, scanString, `SELECT serial FROM entries WHERE operator_id = $1 AND holder = $2 AND role = 'sender'
		AND revoked_at IS NULL AND not_after >= $3 ORDER BY sequence`, s.OperatorID, s.Name, c.Now().Unix())
}

// setReplaced enters the leaves of a rekey, or ends it with none.
func (c *change) setReplaced(s Sender, serials []string, until time.Time) error {
	var end any
	if len(serials) > 0 {
		end = until.Unix()
	}
	_, err := c.Exec(`UPDATE senders SET replaced_serials = $1, replaced_until = $2 WHERE operator_id = $3 AND holder_id = $4`,
		toJSON(serials), end, s.OperatorID, s.HolderID)
	if err != nil {
		return fmt.Errorf("writing replaced leaves: %w", err)
	}
	return nil
}

// CompleteRekey ends a rekey after an operator reported that a sender came with
// the leaf of that serial: when it is a new one, the replaced leaves and whatever
// was renewed from them are revoked. Anything else changes nothing, so every
// report may be passed on.
func (s *Service) CompleteRekey(ctx context.Context, operatorID, senderName, serial string) error {
	var pending bool
	err := s.store.View(ctx, func(tx *ledger.Tx) (err error) {
		_, pending, err = rekeyed(tx, operatorID, senderName, serial)
		return err
	})
	if err != nil || !pending {
		return err
	}
	return s.update(ctx, Actor{Name: audit.ActorServer}, func(c *change) error {
		sender, pending, err := rekeyed(c.Tx, operatorID, senderName, serial)
		if err != nil || !pending {
			return err
		}
		return c.endRekey(sender)
	})
}

// rekeyed reports whether a sender's rekey is over because the leaf is a new one:
// good, of this sender, neither replaced nor renewed from one that is.
func rekeyed(tx *ledger.Tx, operatorID, senderName, serial string) (sender Sender, over bool, err error) {
	sender, err = scanSender(tx.QueryRow(selectSender+` WHERE s.operator_id = $1 AND s.name = $2
		AND s.removed_at IS NULL AND s.replaced_until IS NOT NULL`, operatorID, senderName))
	if err := rowError(err, whatSender); isReason(err, controlapi.ReasonNotFound) {
		return sender, false, nil
	} else if err != nil {
		return sender, false, err
	}
	for at := serial; ; {
		if slices.Contains(sender.replaced, at) {
			return sender, false, nil
		}
		var parent string
		err := tx.QueryRow(`SELECT parent FROM entries WHERE operator_id = $1 AND serial = $2 AND holder = $3
			AND revoked_at IS NULL`, operatorID, at, senderName).Scan(&parent)
		if err := rowError(err, whatEntry); isReason(err, controlapi.ReasonNotFound) {
			return sender, false, nil
		} else if err != nil {
			return sender, false, err
		}
		if parent == "" {
			return sender, true, nil
		}
		at = parent
	}
}

// endRekey revokes the replaced leaves of a sender.
func (c *change) endRekey(sender Sender) error {
	c.actor.OrgID = sender.OrgID
	leaves := 0
	for _, serial := range sender.replaced {
		revoked, err := c.RevokeLeaf(sender.OperatorID, serial, reasonReplaced)
		if err != nil {
			return fmt.Errorf("revoking a replaced leaf: %w", err)
		}
		leaves += len(revoked)
	}
	if err := c.setReplaced(sender, []string{}, time.Time{}); err != nil {
		return err
	}
	if _, err := c.next(sender.OperatorID); err != nil {
		return err
	}
	return c.record(audit.SenderRekeyCompleted, sender.Name, map[string]any{"leaves": leaves})
}
