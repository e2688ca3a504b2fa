// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package operators

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ikhnos/continuum/control/audit"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/identity"
)

// CreateOperator makes an operator with a CA of its own (PK-1), connected to its
// destination and to the source clusters named. An id that was ever used on the
// server is name_taken.
func (s *Service) CreateOperator(ctx context.Context, a Actor, r OperatorRequest) (Operator, error) {
	op, _, err := s.putOperator(ctx, a, r, r.ID == "", false)
	return op, err
}

// PutOperator is CreateOperator under a chosen id that may be repeated: the same
// name, role, destination and labels answer the operator as it is, others are
// state_conflict, because they never change (IS-16).
func (s *Service) PutOperator(ctx context.Context, a Actor, r OperatorRequest) (op Operator, created bool, err error) {
	return s.putOperator(ctx, a, r, false, true)
}

func (s *Service) putOperator(ctx context.Context, a Actor, r OperatorRequest, chooseID, repeat bool) (op Operator, created bool, err error) {
	wanted, err := r.operator(chooseID)
	if err != nil {
		return Operator{}, false, err
	}
	err = s.update(ctx, a, func(c *change) error {
		op, created = wanted, true
		if chooseID {
			if op.ID, err = c.freeOperatorID(op.Name); err != nil {
				return err
			}
		} else if old, taken, err := c.existing(op.ID); err != nil || taken {
			op, created = old, false
			if err == nil {
				err = conflict(old, wanted, repeat)
			}
			return err
		}
		return s.createOperator(c, &op)
	})
	if err != nil {
		return Operator{}, false, err
	}
	return op, created, nil
}

// conflict: somebody's own operator differs, any other use of the id is taken. old
// is empty when it is not one of the actor's organisation.
func conflict(old, wanted Operator, repeat bool) error {
	if !repeat || old.ID == "" {
		return problem(controlapi.ReasonNameTaken,
			"This server has or had an operator of this id, and an id of an operator is never used again.")
	}
	differs := old.differences(wanted)
	if len(differs) == 0 {
		return nil
	}
	return problem(controlapi.ReasonStateConflict,
		"Operator "+old.ID+" exists and differs in: "+strings.Join(differs, ", ")+". These are for good once it is created.")
}

// existing reports whether an id was ever used, and the operator if it is one of
// the actor's organisation that was not deleted.
func (c *change) existing(id string) (op Operator, taken bool, err error) {
	var n int
	if err := c.QueryRow(`SELECT COUNT(*) FROM operators WHERE id = $1`, id).Scan(&n); err != nil {
		return op, false, fmt.Errorf("looking an operator id up: %w", err)
	}
	op, err = operatorRow(c.Tx, c.actor.OrgID, id)
	if isReason(err, controlapi.ReasonNotFound) {
		err = nil
	}
	return op, n > 0, err
}

// operator checks a request and fills its defaults.
func (r OperatorRequest) operator(chooseID bool) (Operator, error) {
	var f faults
	op := Operator{
		ID: r.ID, Name: r.Name, Role: orDefault(r.Role, RoleRegional), Labels: r.Labels,
		Exposure: orDefault(r.Exposure, ExposureCluster), Heartbeat: orDefault(r.Heartbeat, SwitchOff),
		State: OperatorActive, ClientCAScope: ScopeOperator, ReceiverAuth: AuthMTLS,
	}
	if !chooseID {
		f.operatorID("id", r.ID)
	}
	f.name("name", r.Name)
	oneOf(&f, "role", op.Role, RoleRegional, RoleCentral)
	oneOf(&f, "exposure", op.Exposure, ExposureCluster, ExposureNodePort, ExposureLoadBalancer)
	oneOf(&f, "heartbeat", op.Heartbeat, SwitchOff, SwitchOn)
	f.labels("labels", r.Labels)
	op.Destination = f.destination(r.Destination, op.Role)
	op.SourceClusterIDs = slices.Compact(slices.Sorted(slices.Values(r.SourceClusterIDs)))
	if op.SourceClusterIDs == nil {
		op.SourceClusterIDs = []string{}
	}
	if op.Labels == nil {
		op.Labels = map[string]string{}
	}
	return op, f.problem()
}

// destination checks the form of a destination; allowDestination decides on it.
func (f *faults) destination(d *Destination, role OperatorRole) *Destination {
	if d == nil {
		if role != RoleCentral {
			f.add("destination", "a regional operator needs a destination")
		}
		return nil
	}
	checked := *d
	oneOf(f, "destination.kind", d.Kind, DestinationOTLP, DestinationOperator)
	switch d.Kind {
	case DestinationOTLP:
		endpoint, err := endpointAddress(d.Endpoint)
		if err != nil {
			f.add("destination.endpoint", "must be host:port")
		}
		checked.Endpoint = endpoint
		if d.OperatorID != "" {
			f.add("destination.operatorId", "only with kind operator")
		}
	case DestinationOperator:
		if d.OperatorID == "" {
			f.add("destination.operatorId", "is needed with kind operator")
		}
		if d.Endpoint != "" {
			f.add("destination.endpoint", "only with kind otlp: an operator is dialled at its recorded address")
		}
	}
	return &checked
}

// allowDestination demands an active central operator of the same organisation
// . A central operator sends to no operator, so nothing can go in a circle.
func (c *change) allowDestination(op *Operator) error {
	id := op.destinationOperator()
	if id == "" {
		return nil
	}
	refused := func(detail string) error { return problem(controlapi.ReasonDestinationNotAllowed, detail) }
	if id == op.ID {
		return refused("An operator does not send to itself.")
	}
	if op.Role == RoleCentral {
		return refused("A central operator does not send to another operator.")
	}
	target, err := operatorRow(c.Tx, c.actor.OrgID, id)
	switch {
	case isReason(err, controlapi.ReasonNotFound):
		return refused("This organisation has no operator of the id that is named as destination.")
	case err != nil:
		return err
	case target.State != OperatorActive:
		return refused("Operator " + target.ID + " is revoked, so nothing can be sent to it.")
	case target.Role != RoleCentral:
		return refused("Operator " + target.ID + " is a regional one; only a central operator takes what others have gathered.")
	}
	return nil
}

func (s *Service) createOperator(c *change, op *Operator) error {
	if err := c.allowDestination(op); err != nil {
		return err
	}
	if err := c.checkSources(op.SourceClusterIDs); err != nil {
		return err
	}
	op.CreatedAt = c.Now()
	caCert, caKey, spki, err := s.cas.New(op.ID, op.CreatedAt)
	if err != nil {
		return fmt.Errorf("making the operator's CA: %w", err)
	}
	if err := c.insertOperator(op, caCert, caKey, spki); err != nil {
		return err
	}
	if err := c.RecordCA(op.ID, caCert); err != nil {
		return fmt.Errorf("recording the CA: %w", err)
	}
	since, err := c.next(op.ID, op.destinationOperator())
	if err != nil {
		return err
	}
	detail := map[string]any{"name": op.Name, "role": string(op.Role), "labels": op.Labels, "heartbeat": string(op.Heartbeat)}
	if op.Destination != nil {
		detail["destination"] = *op.Destination
	}
	if err := c.record(audit.OperatorCreated, op.ID, detail); err != nil {
		return err
	}
	if to := op.destinationOperator(); to != "" {
		if _, err := c.connect(to, op.ID, controlapi.KindOperator, "", since); err != nil {
			return err
		}
	}
	for _, id := range op.SourceClusterIDs {
		if _, err := c.connect(op.ID, id, controlapi.KindCluster, "", since); err != nil {
			return err
		}
	}
	op.Warnings, err = c.labelWarnings(op)
	return err
}

// checkSources demands approved clusters of the organisation (IS-4).
func (c *change) checkSources(ids []string) error {
	var f faults
	for _, id := range ids {
		cluster, err := clusterRow(c.Tx, c.actor.OrgID, id)
		switch {
		case isReason(err, controlapi.ReasonNotFound):
			f.add("sourceClusterIds", "each must be an approved cluster of this organisation, and one is no cluster of it")
		case err != nil:
			return err
		case cluster.State != ClusterApproved:
			f.add("sourceClusterIds", "each must be an approved cluster of this organisation, and %s is %s", cluster.ID, cluster.State)
		}
	}
	return f.problem()
}

// labelWarnings says which of an operator's labels also stand on a cluster: the
// operator's is the one that is stamped.
func (c *change) labelWarnings(op *Operator) ([]string, error) {
	if len(op.Labels) == 0 {
		return nil, nil
	}
	clusters, err := collect(c.Tx, scanCluster, selectCluster+` WHERE org_id = $1 AND state <> 'deleted'`, c.actor.OrgID)
	if err != nil {
		return nil, err
	}
	theirs := map[string]string{}
	for _, cluster := range clusters {
		maps.Copy(theirs, cluster.Labels)
	}
	return sameLabels(op.Labels, theirs), nil
}

func sameLabels(operator, cluster map[string]string) (warnings []string) {
	normal := make(map[string]bool, len(cluster))
	for name := range cluster {
		normal[identity.NormalForm(name)] = true
	}
	for _, name := range slices.Sorted(maps.Keys(operator)) {
		if normal[identity.NormalForm(name)] {
			warnings = append(warnings, "Label "+name+" also stands on a cluster; the operator's value is stamped.")
		}
	}
	return warnings
}

func (c *change) insertOperator(op *Operator, caCert, caKey []byte, spki string) error {
	d := orDefault(op.Destination, &Destination{})
	_, err := c.Exec(`INSERT INTO operators (id, org_id, name, role, destination_kind, destination_endpoint,
		destination_operator, labels, source_clusters, address, exposure, heartbeat, last_beat, state,
		client_ca_cert, client_ca_key, client_ca_spki, last_policy, change_number, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, '', $10, $11, '', $12, $13, $14, $15, '', 0, $16)`,
		op.ID, c.actor.OrgID, op.Name, string(op.Role), string(d.Kind), d.Endpoint, d.OperatorID,
		toJSON(op.Labels), toJSON(op.SourceClusterIDs), string(op.Exposure), string(op.Heartbeat), string(op.State),
		caCert, caKey, spki, op.CreatedAt.Unix())
	if err != nil {
		return fmt.Errorf("writing an operator: %w", err)
	}
	return nil
}

// freeOperatorID makes an id from a name: a slug and four random characters.
func (c *change) freeOperatorID(name string) (string, error) {
	for {
		id := operatorIDFor(name, strings.ToLower(rand.Text()[:4]))
		var n int
		if err := c.QueryRow(`SELECT COUNT(*) FROM operators WHERE id = $1`, id).Scan(&n); err != nil {
			return "", fmt.Errorf("looking an operator id up: %w", err)
		}
		if n == 0 {
			return id, nil
		}
	}
}

// operatorIDFor cuts the slug of a name so that the id fits, and takes out what
// an id must not contain.
func operatorIDFor(name, random string) string {
	slug := strings.ReplaceAll(identity.NormalForm(name), "_", "-")
	slug = strings.TrimSuffix(slug[:min(len(slug), maxOperatorID-len(operatorPrefix)-len("-")-len(random))], "-")
	id := operatorPrefix + slug + "-" + random
	if slug == "" {
		id = operatorPrefix + random
	}
	for strings.Contains(id, nameInfix) {
		id = strings.ReplaceAll(id, nameInfix, "-")
	}
	return id
}

func (o *Operator) destinationOperator() string {
	if o.Destination == nil {
		return ""
	}
	return o.Destination.OperatorID
}

// differences names what a repeated PUT must not differ in and does.
func (o *Operator) differences(other Operator) (fields []string) {
	for _, f := range []struct {
		name string
		same bool
	}{
		{"name", o.Name == other.Name},
		{"role", o.Role == other.Role},
		{"destination", *orDefault(o.Destination, &Destination{}) == *orDefault(other.Destination, &Destination{})},
		{"labels", maps.Equal(o.Labels, other.Labels)},
	} {
		if !f.same {
			fields = append(fields, f.name)
		}
	}
	return fields
}
