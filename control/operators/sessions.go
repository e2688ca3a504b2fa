// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package operators

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/ikhnos/continuum/control/audit"
	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// sessionLife is how long a sign-in of the web page lasts: a working day.
const sessionLife = 12 * time.Hour

// Session is a sign-in of the web page. Secret goes into the cookie and is kept
// as a hash; CSRF stands in every form of the session.
type Session struct {
	Secret    string
	CSRF      string
	ExpiresAt time.Time
}

// StartSession signs an admin token in. Address and request id are for the audit
// line.
func (s *Service) StartSession(ctx context.Context, adminSecret, requestID, address string) (Session, Actor, error) {
	a, err := s.Authenticate(ctx, adminSecret)
	if err != nil {
		return Session{}, Actor{}, err
	}
	a.RequestID, a.Address = requestID, address
	var session Session
	err = s.update(ctx, a, func(c *change) error {
		session = Session{Secret: rand.Text() + rand.Text(), CSRF: rand.Text(), ExpiresAt: c.Now().Add(sessionLife)}
		if _, err := c.Exec(`DELETE FROM sessions WHERE expires_at <= $1`, c.Now().Unix()); err != nil {
			return fmt.Errorf("clearing sessions: %w", err)
		}
		_, err := c.Exec(`INSERT INTO sessions (secret_hash, admin_token_id, csrf, expires_at) VALUES ($1, $2, $3, $4)`,
			controlapi.HashSecret(session.Secret), a.TokenID, session.CSRF, session.ExpiresAt.Unix())
		if err != nil {
			return fmt.Errorf("writing a session: %w", err)
		}
		return c.record(audit.SessionStarted, a.TokenID, nil)
	})
	if err != nil {
		return Session{}, Actor{}, err
	}
	return session, a, nil
}

// Session returns whose session a cookie's secret opens, and its CSRF token;
// admin_unauthenticated when it, or its admin token, has ended.
func (s *Service) Session(ctx context.Context, secret string) (session Session, a Actor, err error) {
	err = s.store.View(ctx, func(tx *ledger.Tx) error {
		hash := controlapi.HashSecret(secret)
		a, err = scanActor(tx, whatSession, `JOIN sessions x ON x.admin_token_id = t.id
			WHERE x.secret_hash = $1 AND x.expires_at > $2`, hash, tx.Now().Unix())
		if err != nil {
			return err
		}
		var expires int64
		err := tx.QueryRow(`SELECT csrf, expires_at FROM sessions WHERE secret_hash = $1`, hash).
			Scan(&session.CSRF, &expires)
		session.Secret, session.ExpiresAt = secret, seconds(expires)
		return rowError(err, whatSession)
	})
	return session, a, err
}

// EndSession signs out. A session that has ended already is no error.
func (s *Service) EndSession(ctx context.Context, a Actor, secret string) error {
	return s.update(ctx, a, func(c *change) error {
		done, err := c.Exec(`DELETE FROM sessions WHERE secret_hash = $1`, controlapi.HashSecret(secret))
		if err != nil {
			return fmt.Errorf("ending a session: %w", err)
		}
		if n, err := done.RowsAffected(); err != nil || n == 0 {
			return err
		}
		return c.record(audit.SessionEnded, a.TokenID, nil)
	})
}
