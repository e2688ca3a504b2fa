// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"

	"github.com/ikhnos/continuum/control/audit/trail"
	"github.com/ikhnos/continuum/control/operators"
)

// auditTrail lists the changes of an organisation, newest first; filters actor,
// event, object and since.
func (s *Server) auditTrail(ctx context.Context, r *request, p operators.Page) (list operators.List[trail.Record], err error) {
	since, err := r.instant("since")
	if err != nil {
		return list, err
	}
	query := r.URL.Query()
	return trail.List(ctx, s.cfg.Store, r.actor.OrgID,
		trail.Filter{Actor: query.Get("actor"), Event: query.Get("event"), Object: query.Get("object"), Since: since}, p)
}
