// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package operators

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/ikhnos/continuum/control/audit"
	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// Authenticate returns whose admin token this is: admin_unauthenticated for
// anything but a token that exists and has not ended. RequestID and Address are
// the caller's to fill.
func (s *Service) Authenticate(ctx context.Context, secret string) (a Actor, err error) {
	canonical, _, err := controlapi.ParseSecret(controlapi.SecretAdmin, secret)
	if err != nil {
		if secret == "" {
			return a, unauthenticated("No admin token came with the request; it goes into one Authorization header.")
		}
		return a, unauthenticated("What came is no admin token, or it was cut off or mistyped: its checksum is wrong.")
	}
	err = s.store.View(ctx, func(tx *ledger.Tx) error {
		a, err = scanActor(tx, whatAdminToken, `WHERE t.secret_hash = $1`, controlapi.HashSecret(canonical))
		return err
	})
	return a, err
}

func unauthenticated(detail string) error {
	return problem(controlapi.ReasonAdminUnauthenticated, detail)
}

// whatSession is looked for like an admin token and never answered as not found.
const whatSession = "session"

// scanActor reads the one admin token that the condition names, what being what
// was presented. Its tables are
// admin_tokens t and whatever the condition joins.
func scanActor(tx *ledger.Tx, what, condition string, args ...any) (a Actor, err error) {
	var expires sql.NullInt64
	err = tx.QueryRow(`SELECT t.id, t.org_id, t.name, t.role, t.expires_at FROM admin_tokens t `+condition, args...).
		Scan(&a.TokenID, &a.OrgID, &a.Name, &a.Role, &expires)
	if err := rowError(err, what); isReason(err, controlapi.ReasonNotFound) {
		return Actor{}, unauthenticated("The " + what + " is not known here: it has ended, was revoked, or is another server's.")
	} else if err != nil {
		return Actor{}, err
	}
	if expires.Valid && expires.Int64 <= tx.Now().Unix() {
		return Actor{}, unauthenticated("The admin token ended on " + moment(seconds(expires.Int64)) + ".")
	}
	return a, nil
}

// CreateAdminToken makes a token in the actor's organisation, of at most the
// actor's own role. The secret is in the answer alone.
func (s *Service) CreateAdminToken(ctx context.Context, a Actor, r AdminTokenRequest) (AdminToken, error) {
	var f faults
	f.name("name", r.Name)
	oneOf(&f, "role", r.Role, adminRoles...)
	if r.ExpiresAt != nil && !r.ExpiresAt.After(s.store.Now()) {
		f.add("expiresAt", "must be in the future")
	}
	if err := f.problem(); err != nil {
		return AdminToken{}, err
	}
	if err := a.Require(r.Role); err != nil {
		return AdminToken{}, err
	}
	var token AdminToken
	err := s.update(ctx, a, func(c *change) (err error) {
		secret := controlapi.NewSecret(controlapi.SecretAdmin, nil)
		token, err = c.insertAdminToken(r, secret)
		token.Token = secret
		return err
	})
	if err != nil {
		return AdminToken{}, err
	}
	return token, nil
}

// ListAdminTokens lists the tokens of the actor's organisation, without secrets.
func (s *Service) ListAdminTokens(ctx context.Context, a Actor, p Page) (list List[AdminToken], err error) {
	limit, after, err := p.bounds()
	if err != nil {
		return list, err
	}
	err = s.store.View(ctx, func(tx *ledger.Tx) error {
		tokens, err := collect(tx, scanAdminToken, `SELECT id, name, role, created_at, expires_at
			FROM admin_tokens WHERE org_id = $1 AND id > $2 ORDER BY id LIMIT $3`, a.OrgID, after, limit+1)
		list = listOf(tokens, limit, func(t AdminToken) string { return t.TokenID })
		return err
	})
	return list, err
}

// RevokeAdminToken ends a token and its sessions at once. A token of a higher
// role than the actor's own is forbidden.
func (s *Service) RevokeAdminToken(ctx context.Context, a Actor, tokenID string) error {
	return s.update(ctx, a, func(c *change) error {
		token, err := scanAdminToken(c.QueryRow(`SELECT id, name, role, created_at, expires_at
			FROM admin_tokens WHERE org_id = $1 AND id = $2`, a.OrgID, tokenID))
		if err := rowError(err, whatAdminToken); err != nil {
			return err
		}
		if err := a.Require(token.Role); err != nil {
			return err
		}
		if _, err := c.Exec(`DELETE FROM sessions WHERE admin_token_id = $1`, tokenID); err != nil {
			return fmt.Errorf("ending sessions: %w", err)
		}
		if _, err := c.Exec(`DELETE FROM admin_tokens WHERE id = $1`, tokenID); err != nil {
			return fmt.Errorf("deleting an admin token: %w", err)
		}
		return c.record(audit.AdminTokenRevoked, tokenID, map[string]any{"name": token.Name, "role": string(token.Role)})
	})
}

func (c *change) insertAdminToken(r AdminTokenRequest, secret string) (AdminToken, error) {
	token := AdminToken{TokenID: newID("adm-"), Name: r.Name, Role: r.Role, CreatedAt: c.Now()}
	detail := map[string]any{"name": token.Name, "role": string(token.Role)}
	var expires sql.NullInt64
	if r.ExpiresAt != nil {
		end := controlapi.Seconds(*r.ExpiresAt)
		token.ExpiresAt = &end
		expires = sql.NullInt64{Int64: end.Unix(), Valid: true}
		detail["expiresAt"] = end.Format(time.RFC3339)
	}
	_, err := c.Exec(`INSERT INTO admin_tokens (id, org_id, name, role, secret_hash, created_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		token.TokenID, c.actor.OrgID, token.Name, string(token.Role), controlapi.HashSecret(secret), token.CreatedAt.Unix(), expires)
	if err != nil {
		return AdminToken{}, fmt.Errorf("writing an admin token: %w", err)
	}
	return token, c.record(audit.AdminTokenCreated, token.TokenID, detail)
}

func scanAdminToken(r scanner) (t AdminToken, err error) {
	var created int64
	var expires sql.NullInt64
	if err := r.Scan(&t.TokenID, &t.Name, &t.Role, &created, &expires); err != nil {
		return t, err
	}
	t.CreatedAt, t.ExpiresAt = seconds(created), optionalSeconds(expires)
	return t, nil
}

func optionalSeconds(unix sql.NullInt64) *time.Time {
	if !unix.Valid {
		return nil
	}
	t := seconds(unix.Int64)
	return &t
}
