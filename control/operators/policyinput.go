// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package operators

import (
	"database/sql"
	"fmt"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/identity"
)

// PolicyInput is what an operator's policy is made of, as one transaction sees
// it. What a policy says about leaves comes from the ledger.
type PolicyInput struct {
	OperatorID string
	OrgID      string
	Name       string
	Labels     map[string]string
	State      OperatorState      // active or revoked; a tombstone is revoked
	Version    controlapi.Version // of the last change that this policy shows
	CACert     []byte             // DER
	CAKey      []byte             // sealed; nil once erased
	LastPolicy string             // of a revoked operator
	LastCRL    []byte             // DER; of a revoked operator
	Senders    []controlapi.PolicySender
}

// ReadPolicyInput reads it for an operator of any organisation and state;
// not_found only for an id that was never used.
func ReadPolicyInput(tx *ledger.Tx, operatorID string) (PolicyInput, error) {
	in := PolicyInput{OperatorID: operatorID}
	var labels string
	err := tx.QueryRow(`SELECT o.org_id, o.name, o.labels, o.state, o.client_ca_cert, o.client_ca_key, o.last_policy,
		o.last_crl, o.change_number, v.epoch FROM operators o CROSS JOIN change_counter v WHERE o.id = $1`, operatorID).
		Scan(&in.OrgID, &in.Name, &labels, &in.State, &in.CACert, &in.CAKey, &in.LastPolicy, &in.LastCRL,
			&in.Version.Number, &in.Version.Epoch)
	if err := rowError(err, whatOperator); err != nil {
		return PolicyInput{}, err
	}
	if err := fromJSON(labels, &in.Labels); err != nil {
		return PolicyInput{}, err
	}
	if in.State == operatorDeleted {
		in.State = OperatorRevoked
	}
	if in.Senders, err = policySenders(tx, operatorID); err != nil {
		return PolicyInput{}, err
	}
	return in, nil
}

// policySenders lists an operator's senders with all that its policy shows. One
// that was removed counts as revoked, as long as a leaf of it could still be
// presented.
func policySenders(tx *ledger.Tx, operatorID string) ([]controlapi.PolicySender, error) {
	senders, err := collect(tx, scanPolicySender, `SELECT s.operator_id, s.holder_id, s.name, s.kind, s.org_id, s.state,
		s.since_epoch, s.since_number, s.replaced_serials, s.replaced_until, s.removed_at,
		c.labels, c.tenant_account, c.tenant_project, h.name, h.labels
		FROM senders s
		LEFT JOIN clusters c ON s.kind = 'cluster' AND c.org_id = s.org_id AND c.id = s.holder_id
		LEFT JOIN operators h ON s.kind = 'operator' AND h.id = s.holder_id
		WHERE s.operator_id = $1 AND (s.removed_at IS NULL OR EXISTS (SELECT 1 FROM entries e
			WHERE e.operator_id = s.operator_id AND e.holder = s.name AND e.not_after >= $2))
		ORDER BY s.holder_id`, operatorID, tx.Now().Unix())
	if err != nil {
		return nil, err
	}
	vouches, err := vouchedPairs(tx, operatorID)
	if err != nil {
		return nil, err
	}
	for i := range senders {
		senders[i].Vouches = vouches[senders[i].OperatorID]
		if senders[i].Vouches == nil {
			senders[i].Vouches = []controlapi.Vouch{}
		}
	}
	return senders, nil
}

func scanPolicySender(r scanner) (s controlapi.PolicySender, err error) {
	var operatorID, holderID, replaced string
	var until, removed, account, project sql.NullInt64
	var clusterLabels, operatorName, operatorLabels sql.NullString
	err = r.Scan(&operatorID, &holderID, &s.Name, &s.Kind, &s.OrgID, &s.State, &s.Since.Epoch, &s.Since.Number,
		&replaced, &until, &removed, &clusterLabels, &account, &project, &operatorName, &operatorLabels)
	if err != nil {
		return s, err
	}
	s.URI = identity.SenderURI(operatorID, s.Kind, holderID)
	labels := clusterLabels
	if s.Kind == controlapi.KindOperator {
		s.OperatorID, s.OperatorName, labels = holderID, operatorName.String, operatorLabels
	} else {
		s.ClusterID, s.Tenant = holderID, tenantOf(account, project)
	}
	if removed.Valid {
		s.State = controlapi.SenderRevoked
	}
	if until.Valid {
		s.Replaced = &controlapi.Replaced{Until: seconds(until.Int64)}
		if err := fromJSON(replaced, &s.Replaced.Serials); err != nil {
			return s, err
		}
	}
	s.Labels, err = labelsOf(labels)
	return s, err
}

// labelsOf reads the labels of a holder, none of one that is no longer known.
func labelsOf(column sql.NullString) (map[string]string, error) {
	labels := map[string]string{}
	if !column.Valid {
		return labels, nil
	}
	return labels, fromJSON(column.String, &labels)
}

// vouchedPairs lists, by operator that sends to operatorID, the clusters whose
// data it may relay: those that are connected to it, on hold or not, and those
// that left less than vouchFor ago.
func vouchedPairs(tx *ledger.Tx, operatorID string) (map[string][]controlapi.Vouch, error) {
	type pair struct {
		by    string
		vouch controlapi.Vouch
	}
	scan := func(r scanner) (p pair, err error) {
		var labels sql.NullString
		if err := r.Scan(&p.by, &p.vouch.OrgID, &p.vouch.ClusterID, &labels); err != nil {
			return p, err
		}
		p.vouch.Labels, err = labelsOf(labels)
		return p, err
	}
	pairs, err := collect(tx, scan, `SELECT v.operator_id, v.org_id, v.holder_id, c.labels
		FROM senders s
		JOIN senders v ON v.operator_id = s.holder_id AND v.kind = 'cluster'
		LEFT JOIN clusters c ON c.org_id = v.org_id AND c.id = v.holder_id
		LEFT JOIN receipts r ON r.id = v.receipt_id
		WHERE s.operator_id = $1 AND s.kind = 'operator' AND s.removed_at IS NULL
		AND (v.state <> 'revoked' AND v.removed_at IS NULL OR v.state = 'revoked' AND r.committed_at_ms > $2)
		ORDER BY v.operator_id, v.holder_id`, operatorID, tx.Now().Add(-vouchFor).UnixMilli())
	if err != nil {
		return nil, fmt.Errorf("reading vouched clusters: %w", err)
	}
	vouches := map[string][]controlapi.Vouch{}
	for _, p := range pairs {
		vouches[p.by] = append(vouches[p.by], p.vouch)
	}
	return vouches, nil
}
