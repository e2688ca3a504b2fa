// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package operators

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"time"

	"github.com/ikhnos/continuum/control/audit"
	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/internal/controlapi"
)

const (
	defaultSilentAfter = "5m"
	minSilentAfter     = time.Second
	maxSilentAfter     = 30 * 24 * time.Hour
)

// CreateCluster registers a cluster, which is then pending; name_taken when the
// id is in use or a leaf of its predecessor still lives.
func (s *Service) CreateCluster(ctx context.Context, a Actor, r ClusterRequest) (Cluster, error) {
	cluster, _, err := s.putCluster(ctx, a, r, false)
	return cluster, err
}

// PutCluster registers a cluster, or gives an existing one the kind, labels,
// tenant and silentAfter of the request. Its state stays.
func (s *Service) PutCluster(ctx context.Context, a Actor, r ClusterRequest) (cluster Cluster, created bool, err error) {
	return s.putCluster(ctx, a, r, true)
}

func (s *Service) putCluster(ctx context.Context, a Actor, r ClusterRequest, update bool) (cluster Cluster, created bool, err error) {
	wanted, err := r.cluster()
	if err != nil {
		return Cluster{}, false, err
	}
	err = s.update(ctx, a, func(c *change) error {
		old, err := clusterRow(c.Tx, a.OrgID, r.ID)
		switch {
		case isReason(err, controlapi.ReasonNotFound):
			created = true
			cluster, err = c.registerCluster(wanted)
			return err
		case err != nil:
			return err
		case !update:
			return problem(controlapi.ReasonNameTaken, "Cluster "+old.ID+" is registered already; a PUT to its path changes it.")
		}
		created = false
		cluster, err = c.updateCluster(old, wanted)
		return err
	})
	if err != nil {
		return Cluster{}, false, err
	}
	return cluster, created, nil
}

// cluster checks a request and fills its defaults.
func (r ClusterRequest) cluster() (Cluster, error) {
	var f faults
	f.clusterID("id", r.ID)
	c := Cluster{ID: r.ID, Kind: orDefault(r.Kind, ClusterKubernetes), Labels: r.Labels, Tenant: r.Tenant}
	oneOf(&f, "kind", c.Kind, ClusterKubernetes, ClusterHost)
	f.labels("labels", r.Labels)
	c.SilentAfter = formatDuration(f.duration("silentAfter", orDefault(r.SilentAfter, defaultSilentAfter), minSilentAfter, maxSilentAfter))
	if c.Labels == nil {
		c.Labels = map[string]string{}
	}
	return c, f.problem()
}

// registerCluster writes a new row, over the one of a deleted predecessor whose
// leaves have all ended: while one lives, somebody else could still be this id.
func (c *change) registerCluster(cluster Cluster) (Cluster, error) {
	var ends int64
	err := c.QueryRow(`SELECT COALESCE(MAX(e.not_after), 0) FROM entries e JOIN operators o ON o.id = e.operator_id
		WHERE o.org_id = $1 AND e.holder_id = $2 AND e.role = 'sender' AND e.not_after >= $3`,
		c.actor.OrgID, cluster.ID, c.Now().Unix()).Scan(&ends)
	if err != nil {
		return Cluster{}, fmt.Errorf("looking for living leaves: %w", err)
	}
	if ends > 0 {
		return Cluster{}, problem(controlapi.ReasonNameTaken,
			"A certificate of the deleted cluster "+cluster.ID+" is good until "+moment(seconds(ends))+"; its id is free after that.")
	}
	if _, err := c.Exec(`DELETE FROM clusters WHERE org_id = $1 AND id = $2`, c.actor.OrgID, cluster.ID); err != nil {
		return Cluster{}, fmt.Errorf("deleting a cluster's tombstone: %w", err)
	}
	cluster.State, cluster.CreatedAt, cluster.CreatedBy = ClusterPending, c.Now(), c.actor.Name
	account, project := cluster.tenant()
	_, err = c.Exec(`INSERT INTO clusters
		(org_id, id, kind, labels, tenant_account, tenant_project, silent_after, state, created_at, created_by)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		c.actor.OrgID, cluster.ID, string(cluster.Kind), toJSON(cluster.Labels), account, project,
		cluster.silentSeconds(), string(cluster.State), cluster.CreatedAt.Unix(), cluster.CreatedBy)
	if err != nil {
		return Cluster{}, fmt.Errorf("writing a cluster: %w", err)
	}
	return cluster, c.record(audit.ClusterRegistered, cluster.ID, map[string]any{"kind": string(cluster.Kind), "labels": cluster.Labels})
}

// updateCluster changes what may change; nothing happens when nothing differs.
func (c *change) updateCluster(old, wanted Cluster) (Cluster, error) {
	updated := old
	updated.Kind, updated.Labels, updated.Tenant, updated.SilentAfter = wanted.Kind, wanted.Labels, wanted.Tenant, wanted.SilentAfter
	shown := !maps.Equal(old.Labels, updated.Labels) || !sameTenant(old.Tenant, updated.Tenant)
	if !shown && old.Kind == updated.Kind && old.SilentAfter == updated.SilentAfter {
		return old, nil
	}
	account, project := updated.tenant()
	_, err := c.Exec(`UPDATE clusters SET kind = $1, labels = $2, tenant_account = $3, tenant_project = $4, silent_after = $5
		WHERE org_id = $6 AND id = $7`,
		string(updated.Kind), toJSON(updated.Labels), account, project, updated.silentSeconds(), c.actor.OrgID, old.ID)
	if err != nil {
		return Cluster{}, fmt.Errorf("updating a cluster: %w", err)
	}
	if shown {
		concerned, err := c.showing(old.ID)
		if err != nil {
			return Cluster{}, err
		}
		if _, err := c.next(concerned...); err != nil {
			return Cluster{}, err
		}
	}
	return updated, c.record(audit.ClusterUpdated, old.ID, map[string]any{
		"labels": updated.Labels, "previousLabels": old.Labels, "silentAfter": updated.SilentAfter, "kind": string(updated.Kind),
	})
}

// showing lists the operators whose policies show a holder: those it is a sender
// of, and where these send on to, which vouches for it there.
func (c *change) showing(holderID string) ([]string, error) {
	return collect(c.Tx, scanString, `SELECT s.operator_id FROM senders s WHERE s.org_id = $1 AND s.holder_id = $2
		UNION SELECT o.destination_operator FROM senders s JOIN operators o ON o.id = s.operator_id
		WHERE s.org_id = $1 AND s.holder_id = $2 AND o.destination_operator <> ''`, c.actor.OrgID, holderID)
}

// ApproveCluster lets a pending or revoked cluster connect. Connections of a
// revoked one come back by their own restore.
func (s *Service) ApproveCluster(ctx context.Context, a Actor, id string) (cluster Cluster, err error) {
	err = s.update(ctx, a, func(c *change) error {
		cluster, err = clusterRow(c.Tx, a.OrgID, id)
		if err != nil || cluster.State == ClusterApproved {
			return err
		}
		cluster, err = c.approve(cluster)
		return err
	})
	return cluster, err
}

func (c *change) approve(cluster Cluster) (Cluster, error) {
	now, previous := c.Now(), cluster.State
	cluster.State, cluster.ApprovedAt, cluster.ApprovedBy = ClusterApproved, &now, c.actor.Name
	_, err := c.Exec(`UPDATE clusters SET state = $1, approved_at = $2, approved_by = $3 WHERE org_id = $4 AND id = $5`,
		string(ClusterApproved), now.Unix(), c.actor.Name, c.actor.OrgID, cluster.ID)
	if err != nil {
		return cluster, fmt.Errorf("approving a cluster: %w", err)
	}
	return cluster, c.record(audit.ClusterApproved, cluster.ID, map[string]any{"previousState": string(previous)})
}

// RevokeCluster withdraws a cluster: it is cut off at every operator it sends to.
// A repeated call answers the first receipt.
func (s *Service) RevokeCluster(ctx context.Context, a Actor, id string, r NoteRequest) (*controlapi.Receipt, error) {
	return s.withdrawCluster(ctx, a, id, r, ClusterRevoked)
}

// DeleteCluster revokes a cluster and takes it off every list. Its labels stay
// behind for its data that is still on its way.
func (s *Service) DeleteCluster(ctx context.Context, a Actor, id string) (*controlapi.Receipt, error) {
	return s.withdrawCluster(ctx, a, id, NoteRequest{}, clusterDeleted)
}

func (s *Service) withdrawCluster(ctx context.Context, a Actor, id string, r NoteRequest, state ClusterState) (receipt *controlapi.Receipt, err error) {
	var f faults
	f.note("note", r.Note)
	if err := f.problem(); err != nil {
		return nil, err
	}
	err = s.update(ctx, a, func(c *change) error {
		cluster, err := clusterRow(c.Tx, a.OrgID, id)
		if err != nil {
			return err
		}
		if cluster.State == ClusterRevoked {
			receipt, err = lastReceipt(c.Tx, a.OrgID, clusterSubject(id))
		} else {
			receipt, err = s.revokeCluster(c, id, r.Note)
		}
		if err != nil || cluster.State == state {
			return err
		}
		if _, err := c.Exec(`UPDATE clusters SET state = $1 WHERE org_id = $2 AND id = $3`, string(state), a.OrgID, id); err != nil {
			return fmt.Errorf("withdrawing a cluster: %w", err)
		}
		if state != clusterDeleted {
			return nil
		}
		_, err = c.Exec(`UPDATE senders SET removed_at = $1 WHERE org_id = $2 AND holder_id = $3 AND removed_at IS NULL`,
			c.Now().Unix(), a.OrgID, id)
		if err != nil {
			return fmt.Errorf("removing a cluster's connections: %w", err)
		}
		return c.record(audit.ClusterDeleted, id, nil)
	})
	return receipt, err
}

func (s *Service) revokeCluster(c *change, id, note string) (*controlapi.Receipt, error) {
	senders, err := collect(c.Tx, scanSender, selectSender+` WHERE s.org_id = $1 AND s.holder_id = $2
		AND s.removed_at IS NULL AND s.state <> 'revoked' AND o.state = 'active' ORDER BY s.operator_id`, c.actor.OrgID, id)
	if err != nil {
		return nil, err
	}
	receipt, cut, err := s.cutOff(c, clusterSubject(id), senders, RevokeRetired)
	if err != nil {
		return nil, err
	}
	return receipt, c.record(audit.ClusterRevoked, id, map[string]any{
		"note": note, "receiptId": receipt.ReceiptID, "senders": len(senders), "leaves": cut.leaves, "tokens": cut.tokens,
	})
}

func clusterSubject(id string) string { return "cluster " + id }

// GetCluster returns one cluster.
func (s *Service) GetCluster(ctx context.Context, a Actor, id string) (cluster Cluster, err error) {
	err = s.store.View(ctx, func(tx *ledger.Tx) error {
		cluster, err = clusterRow(tx, a.OrgID, id)
		return err
	})
	return cluster, err
}

// ClusterFilter chooses clusters; empty fields do not restrict.
type ClusterFilter struct {
	State ClusterState
	Kind  ClusterKind
}

// ListClusters lists the clusters of the actor's organisation by id.
func (s *Service) ListClusters(ctx context.Context, a Actor, f ClusterFilter, p Page) (list List[Cluster], err error) {
	limit, after, err := p.bounds()
	if err != nil {
		return list, err
	}
	err = s.store.View(ctx, func(tx *ledger.Tx) error {
		clusters, err := collect(tx, scanCluster, selectCluster+` WHERE org_id = $1 AND state <> 'deleted' AND id > $2
			AND ($3 = '' OR state = $3) AND ($4 = '' OR kind = $4) ORDER BY id LIMIT $5`,
			a.OrgID, after, string(f.State), string(f.Kind), limit+1)
		list = listOf(clusters, limit, func(c Cluster) string { return c.ID })
		return err
	})
	return list, err
}

// notApproved says how a cluster stands that may not connect.
func notApproved(c Cluster) error {
	detail := "Cluster " + c.ID + " waits for its approval."
	if c.State == ClusterRevoked {
		detail = "Cluster " + c.ID + " is revoked; approved again, each of its connections comes back by its own restore."
	}
	return problem(controlapi.ReasonClusterNotApproved, detail)
}

const selectCluster = `SELECT id, kind, labels, tenant_account, tenant_project, silent_after, state,
	created_at, created_by, approved_at, approved_by FROM clusters`

func clusterRow(tx *ledger.Tx, orgID, id string) (Cluster, error) {
	if unusable(id) {
		return Cluster{}, notFound(whatCluster)
	}
	c, err := scanCluster(tx.QueryRow(selectCluster+` WHERE org_id = $1 AND id = $2 AND state <> 'deleted'`, orgID, id))
	return c, rowError(err, whatCluster)
}

func scanCluster(r scanner) (c Cluster, err error) {
	var labels string
	var silent, created int64
	var account, project, approved sql.NullInt64
	var approvedBy sql.NullString
	err = r.Scan(&c.ID, &c.Kind, &labels, &account, &project, &silent, &c.State, &created, &c.CreatedBy, &approved, &approvedBy)
	if err != nil {
		return c, err
	}
	c.Tenant = tenantOf(account, project)
	c.SilentAfter = formatDuration(time.Duration(silent) * time.Second)
	c.CreatedAt, c.ApprovedAt, c.ApprovedBy = seconds(created), optionalSeconds(approved), approvedBy.String
	return c, fromJSON(labels, &c.Labels)
}

func (c Cluster) silentSeconds() int64 {
	d, _ := time.ParseDuration(c.SilentAfter) // written by formatDuration
	return int64(d / time.Second)
}

func (c Cluster) tenant() (account, project sql.NullInt64) {
	if c.Tenant == nil {
		return account, project
	}
	return sql.NullInt64{Int64: int64(c.Tenant.Account), Valid: true}, sql.NullInt64{Int64: int64(c.Tenant.Project), Valid: true}
}

func tenantOf(account, project sql.NullInt64) *controlapi.Tenant {
	if !account.Valid || !project.Valid {
		return nil
	}
	return &controlapi.Tenant{Account: uint32(account.Int64), Project: uint32(project.Int64)}
}

func sameTenant(a, b *controlapi.Tenant) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
