// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package operators

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/ikhnos/continuum/control/audit"
	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/identity"
)

const (
	defaultTTL = time.Hour
	minTTL     = time.Second
	maxTTL     = 7 * 24 * time.Hour
)

// MintToken makes a one-use enrolment token for an operator's receiver or for a
// connected sender. It ends earlier unspent tokens for the same. The secret is in
// the answer alone.
func (s *Service) MintToken(ctx context.Context, a Actor, operatorID string, r TokenRequest) (token Token, err error) {
	var f faults
	oneOf(&f, "role", r.Role, controlapi.RoleReceiver, controlapi.RoleSender)
	ttl := f.duration("ttl", orDefault(r.TTL, formatDuration(defaultTTL)), minTTL, maxTTL)
	if (r.Role == controlapi.RoleSender) != (r.Sender != "") {
		f.add("sender", "is needed with role sender, and only there")
	}
	if err := f.problem(); err != nil {
		return Token{}, err
	}
	err = s.update(ctx, a, func(c *change) error {
		if _, err := activeOperator(c.Tx, a.OrgID, operatorID); err != nil {
			return err
		}
		holderID, name := operatorID, operatorID
		if r.Role == controlapi.RoleSender {
			holderID, name = r.Sender, identity.SenderName(operatorID, r.Sender)
			if err := c.mayEnrol(operatorID, r.Sender); err != nil {
				return err
			}
		}
		token, err = c.mintToken(operatorID, r.Role, holderID, name, ttl)
		return err
	})
	if err != nil {
		return Token{}, err
	}
	return token, nil
}

// mayEnrol demands a connection in force. A cluster that waits for approval says
// so even when it is not connected yet.
func (c *change) mayEnrol(operatorID, holderID string) error {
	sender, err := senderRow(c.Tx, c.actor.OrgID, operatorID, holderID)
	if isReason(err, controlapi.ReasonNotFound) && !strings.HasPrefix(holderID, operatorPrefix) {
		cluster, err := clusterRow(c.Tx, c.actor.OrgID, holderID)
		switch {
		case err != nil:
			return err
		case cluster.State == ClusterPending:
			return notApproved(cluster)
		}
		return problem(controlapi.ReasonNotFound, "Cluster "+cluster.ID+" is not connected to "+operatorID+", and a token is for a connection; connect it first.")
	}
	switch {
	case err != nil:
		return err
	case sender.State == controlapi.SenderRevoked:
		return problem(controlapi.ReasonSenderRevoked, "Sender "+sender.Name+" was revoked, and only a restore lets it in again; that answers a token.")
	case sender.State == controlapi.SenderHeld:
		return problem(controlapi.ReasonSenderHeld, "Sender "+sender.Name+" is on hold; once restored, its certificate works again.")
	default:
		return c.holderInForce(sender)
	}
}

func (c *change) mintToken(operatorID string, role controlapi.Role, holderID, name string, ttl time.Duration) (Token, error) {
	var spkiHex string
	if err := c.QueryRow(`SELECT client_ca_spki FROM operators WHERE id = $1`, operatorID).Scan(&spkiHex); err != nil {
		return Token{}, rowError(err, whatOperator)
	}
	spki, err := hex.DecodeString(spkiHex)
	if err != nil || len(spki) < controlapi.SPKIPrefixBytes {
		return Token{}, fmt.Errorf("the CA key hash of %s is damaged", operatorID)
	}
	version, err := c.Version()
	if err != nil {
		return Token{}, fmt.Errorf("reading the epoch: %w", err)
	}
	ended, err := c.killTokens(operatorID, role, holderID)
	if err != nil {
		return Token{}, err
	}
	t := Token{
		TokenID: newID("tok-"), Token: controlapi.NewSecret(controlapi.SecretEnrollment, spki), Role: role, Name: name,
		State: TokenOpen, CreatedAt: c.Now(), CreatedBy: c.actor.Name, ExpiresAt: c.Now().Add(ttl),
	}
	_, err = c.Exec(`INSERT INTO enrollment_tokens (id, org_id, operator_id, role, holder_id, secret_hash, epoch,
		created_by, created_at, expires_at, state, spent_spki) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, '')`,
		t.TokenID, c.actor.OrgID, operatorID, string(role), holderID, controlapi.HashSecret(t.Token), version.Epoch,
		t.CreatedBy, t.CreatedAt.Unix(), t.ExpiresAt.Unix(), string(TokenOpen))
	if err != nil {
		return Token{}, fmt.Errorf("writing a token: %w", err)
	}
	return t, c.record(audit.EnrollmentTokenCreated, t.TokenID, map[string]any{
		"operator": operatorID, "role": string(role), "name": name,
		"expiresAt": t.ExpiresAt.Format(time.RFC3339), "ended": ended,
	})
}

// killTokens ends the unspent tokens of a holder. Spent ones go on answering for
// the key they were spent for.
func (c *change) killTokens(operatorID string, role controlapi.Role, holderID string) (int64, error) {
	done, err := c.Exec(`UPDATE enrollment_tokens SET state = 'revoked'
		WHERE operator_id = $1 AND role = $2 AND holder_id = $3 AND state = 'open'`, operatorID, string(role), holderID)
	if err != nil {
		return 0, fmt.Errorf("ending tokens: %w", err)
	}
	return done.RowsAffected()
}

// ListTokens lists an operator's enrolment tokens, without their secrets.
func (s *Service) ListTokens(ctx context.Context, a Actor, operatorID string, p Page) (list List[Token], err error) {
	limit, after, err := p.bounds()
	if err != nil {
		return list, err
	}
	err = s.store.View(ctx, func(tx *ledger.Tx) error {
		if _, err := operatorRow(tx, a.OrgID, operatorID); err != nil {
			return err
		}
		version, err := tx.Version()
		if err != nil {
			return fmt.Errorf("reading the epoch: %w", err)
		}
		scan := func(r scanner) (Token, error) { return scanToken(r, tx.Now(), version.Epoch) }
		tokens, err := collect(tx, scan, selectToken+` WHERE operator_id = $1 AND id > $2 ORDER BY id LIMIT $3`,
			operatorID, after, limit+1)
		list = listOf(tokens, limit, func(t Token) string { return t.TokenID })
		return err
	})
	return list, err
}

// RevokeToken ends an unspent token; one that is spent, expired or revoked
// already stays as it is.
func (s *Service) RevokeToken(ctx context.Context, a Actor, operatorID, tokenID string) error {
	return s.update(ctx, a, func(c *change) error {
		if _, err := operatorRow(c.Tx, a.OrgID, operatorID); err != nil {
			return err
		}
		scan := func(r scanner) (Token, error) { return scanToken(r, c.Now(), 0) }
		token, err := scan(c.QueryRow(selectToken+` WHERE operator_id = $1 AND id = $2`, operatorID, tokenID))
		if err := rowError(err, whatToken); err != nil || token.State != TokenOpen {
			return err
		}
		if _, err := c.Exec(`UPDATE enrollment_tokens SET state = 'revoked' WHERE id = $1`, tokenID); err != nil {
			return fmt.Errorf("revoking a token: %w", err)
		}
		return c.record(audit.EnrollmentTokenRevoked, tokenID, map[string]any{"operator": operatorID, "name": token.Name})
	})
}

const selectToken = `SELECT id, operator_id, role, holder_id, epoch, created_by, created_at, expires_at, state FROM enrollment_tokens`

// scanToken reads a token with its state at now. One of an epoch before the
// given one died with the restore in between.
func scanToken(r scanner, now time.Time, epoch int64) (t Token, err error) {
	var operatorID, holderID string
	var tokenEpoch, created, expires int64
	if err := r.Scan(&t.TokenID, &operatorID, &t.Role, &holderID, &tokenEpoch, &t.CreatedBy, &created, &expires, &t.State); err != nil {
		return t, err
	}
	t.Name = operatorID
	if t.Role == controlapi.RoleSender {
		t.Name = identity.SenderName(operatorID, holderID)
	}
	t.CreatedAt, t.ExpiresAt = seconds(created), seconds(expires)
	switch {
	case t.State != TokenOpen:
	case tokenEpoch < epoch:
		t.State = TokenRevoked
	case !now.Before(t.ExpiresAt):
		t.State = TokenExpired
	}
	return t, nil
}
