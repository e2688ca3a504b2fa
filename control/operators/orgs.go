// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package operators

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/ikhnos/continuum/control/audit"
	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// DefaultOrg is the organisation that the first start makes.
const DefaultOrg = "default"

var adminRoles = []AdminRole{RoleViewer, RoleConnector, RoleAdmin, RoleServer}

// Allows reports whether r includes what other may do.
func (r AdminRole) Allows(other AdminRole) bool {
	mine, theirs := slices.Index(adminRoles, r), slices.Index(adminRoles, other)
	return mine >= theirs && theirs >= 0
}

// Require answers forbidden unless the actor's role includes role.
func (a Actor) Require(role AdminRole) error {
	if a.Role.Allows(role) {
		return nil
	}
	return problem(controlapi.ReasonForbidden, "This needs a token of role "+string(role)+"; the one that came has the role "+string(a.Role)+".")
}

// Enter returns the actor as it acts in orgID: itself in its own organisation,
// and in any for role server. Every other organisation is not_found, whether it
// exists or not.
func (s *Service) Enter(ctx context.Context, a Actor, orgID string) (Actor, error) {
	if a.Role != RoleServer {
		if a.OrgID != orgID {
			return Actor{}, notFound(whatOrg)
		}
		return a, nil
	}
	err := s.store.View(ctx, func(tx *ledger.Tx) error {
		_, err := orgRow(tx, orgID)
		return err
	})
	a.OrgID = orgID
	return a, err
}

// Bootstrap makes the organisation "default" and an admin token of role server
// with the given secret, unless there is an organisation already. The caller has
// made the secret durable before, so that a crash in between locks nobody out.
func (s *Service) Bootstrap(ctx context.Context, secret string) (created bool, err error) {
	canonical, _, err := controlapi.ParseSecret(controlapi.SecretAdmin, secret)
	if err != nil {
		return false, fmt.Errorf("first admin token: %w", err)
	}
	actor := Actor{OrgID: DefaultOrg, Name: audit.ActorServer, Role: RoleServer}
	err = s.update(ctx, actor, func(c *change) error {
		created = false
		var n int
		if err := c.QueryRow(`SELECT COUNT(*) FROM organisations`).Scan(&n); err != nil || n > 0 {
			return err
		}
		created = true
		if err := c.insertOrg(Org{ID: DefaultOrg, Name: "Default"}); err != nil {
			return err
		}
		_, err := c.insertAdminToken(AdminTokenRequest{Name: "initial", Role: RoleServer}, canonical)
		return err
	})
	return created, err
}

// CreateOrg makes an organisation and its first admin token, of role admin. The
// token is in the answer alone.
func (s *Service) CreateOrg(ctx context.Context, a Actor, r OrgRequest) (Org, error) {
	var f faults
	f.id("id", r.ID, maxOrgID)
	f.name("name", r.Name)
	if err := f.problem(); err != nil {
		return Org{}, err
	}
	var org Org
	a.OrgID = r.ID
	err := s.update(ctx, a, func(c *change) error {
		if _, err := orgRow(c.Tx, r.ID); err == nil {
			return problem(controlapi.ReasonNameTaken, "An organisation of this id exists already.")
		} else if !isReason(err, controlapi.ReasonNotFound) {
			return err
		}
		org = Org{ID: r.ID, Name: r.Name, AdminToken: controlapi.NewSecret(controlapi.SecretAdmin, nil)}
		if err := c.insertOrg(org); err != nil {
			return err
		}
		_, err := c.insertAdminToken(AdminTokenRequest{Name: "initial", Role: RoleAdmin}, org.AdminToken)
		return err
	})
	if err != nil {
		return Org{}, err
	}
	return org, nil
}

// ListOrgs lists all organisations; for role server.
func (s *Service) ListOrgs(ctx context.Context, p Page) (list List[Org], err error) {
	limit, after, err := p.bounds()
	if err != nil {
		return list, err
	}
	err = s.store.View(ctx, func(tx *ledger.Tx) error {
		orgs, err := collect(tx, scanOrg,
			`SELECT id, name FROM organisations WHERE id > $1 ORDER BY id LIMIT $2`, after, limit+1)
		list = listOf(orgs, limit, func(o Org) string { return o.ID })
		return err
	})
	return list, err
}

func (c *change) insertOrg(o Org) error {
	_, err := c.Exec(`INSERT INTO organisations (id, name, created_at) VALUES ($1, $2, $3)`,
		o.ID, o.Name, c.Now().Unix())
	if err != nil {
		return fmt.Errorf("writing an organisation: %w", err)
	}
	return c.record(audit.OrganisationCreated, o.ID, map[string]any{"name": o.Name})
}

func orgRow(tx *ledger.Tx, id string) (Org, error) {
	org, err := scanOrg(tx.QueryRow(`SELECT id, name FROM organisations WHERE id = $1`, id))
	return org, rowError(err, whatOrg)
}

func scanOrg(r scanner) (o Org, err error) {
	err = r.Scan(&o.ID, &o.Name)
	return o, err
}

// rowError turns the error of reading one row into a problem or a fault.
func rowError(err error, what string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sql.ErrNoRows):
		return notFound(what)
	default:
		return fmt.Errorf("reading %s: %w", what, err)
	}
}

func isReason(err error, r controlapi.Reason) bool {
	var p *controlapi.Problem
	return errors.As(err, &p) && p.Reason == r
}
