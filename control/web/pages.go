// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/ikhnos/continuum/control/audit/trail"
	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/liveness"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// Sizes of what a page shows at once.
const (
	attentionRows = 8
	changeRows    = 10
	tableRows     = 100
	clusterRows   = 500
	partRows      = 500 // of a list that is read to its end
)

type overviewBody struct {
	Attention []liveness.Attention // the first ones
	More      int                  // how many stand behind them
	Summary   *liveness.Summary
	Changes   []trail.Record
	FirstRun  bool
}

func (s *site) overview(r *http.Request, a operators.Actor) (content, error) {
	summary, err := s.Liveness.Summarize(r.Context(), a, s.Operators)
	if err != nil {
		return content{}, err
	}
	changes, err := trail.List(r.Context(), s.Store, a.OrgID, trail.Filter{}, operators.Page{Limit: changeRows})
	if err != nil {
		return content{}, err
	}
	shown := min(len(summary.Attention), attentionRows)
	body := overviewBody{
		Attention: summary.Attention[:shown], More: len(summary.Attention) - shown,
		Summary: summary, Changes: changes.Items, FirstRun: len(summary.Operators) == 0,
	}
	c := content{Title: "Overview", CLI: "ikhnos status", Body: body}
	if shown > 0 {
		c.Worst = worst(summary.Attention[0].Kind)
	}
	return c, nil
}

func (s *site) operators(r *http.Request, a operators.Actor) (content, error) {
	ops, err := all(func(p operators.Page) ([]operators.Operator, string, error) {
		list, err := s.Operators.ListOperators(r.Context(), a, operators.OperatorFilter{}, p)
		return list.Items, list.NextCursor, err
	})
	if err != nil {
		return content{}, err
	}
	judged := make([]*operators.Operator, len(ops))
	for i := range ops {
		judged[i] = &ops[i]
	}
	if err := s.Liveness.Judge(r.Context(), a.OrgID, judged...); err != nil {
		return content{}, err
	}
	slices.SortStableFunc(ops, func(a, b operators.Operator) int {
		return cmp.Or(liveness.Rank(a.Status)-liveness.Rank(b.Status), cmp.Compare(a.Name, b.Name))
	})
	c := content{Title: "Operators", CLI: "ikhnos operator list", Body: ops}
	if len(ops) > 0 {
		c.Worst = worst(ops[0].Status)
	}
	return c, nil
}

// all reads a list to its end.
func all[T any](list func(operators.Page) ([]T, string, error)) (items []T, err error) {
	p := operators.Page{Limit: partRows}
	for {
		part, cursor, err := list(p)
		if err != nil {
			return nil, err
		}
		items = append(items, part...)
		if cursor == "" {
			return items, nil
		}
		p.Cursor = cursor
	}
}

type operatorBody struct {
	Operator operators.Operator
	Senders  []liveness.SenderStatus
	Leaves   []ledger.Entry
	Next     string // path of the next part of the ledger
	AllLinks ledgerLinks
}

// ledgerLinks switch between the newest leaf of each holder and all of them.
type ledgerLinks struct {
	All         bool
	Newest, Any string
}

func (s *site) operator(r *http.Request, a operators.Actor) (content, error) {
	id := r.PathValue("id")
	row, senders, err := s.oneOperator(r.Context(), a, id)
	if err != nil {
		return content{}, err
	}
	everything := r.URL.Query().Get("leaves") == "all"
	leaves, cursor, err := s.entries(r.Context(), ledger.Filter{
		OrgID: a.OrgID, OperatorID: id, Newest: !everything, Limit: tableRows, Cursor: r.URL.Query().Get("cursor"),
	})
	if err != nil {
		return content{}, err
	}
	here := "/operators/" + url.PathEscape(id)
	body := operatorBody{
		Operator: row, Senders: senders, Leaves: leaves, Next: nextPage(here, r.URL.Query(), cursor),
		AllLinks: ledgerLinks{everything, here, here + "?leaves=all"},
	}
	return content{Title: row.Name, Worst: worst(row.Status), CLI: "ikhnos operator get " + id, Body: body}, nil
}

// oneOperator reads an operator and how its senders stand, worst first.
func (s *site) oneOperator(ctx context.Context, a operators.Actor, id string) (operators.Operator, []liveness.SenderStatus, error) {
	op, err := s.Operators.GetOperator(ctx, a, id)
	if err == nil {
		err = s.Liveness.Judge(ctx, a.OrgID, &op)
	}
	if err != nil {
		return operators.Operator{}, nil, err
	}
	senders, err := all(func(p operators.Page) ([]operators.Sender, string, error) {
		list, err := s.Operators.ListSenders(ctx, a, id, p)
		return list.Items, list.NextCursor, err
	})
	if err != nil {
		return operators.Operator{}, nil, err
	}
	statuses, err := s.Liveness.Describe(ctx, senders)
	slices.SortStableFunc(statuses, func(a, b liveness.SenderStatus) int { return liveness.Rank(a.Status) - liveness.Rank(b.Status) })
	return op, statuses, err
}

type clustersBody struct {
	Clusters []operators.Cluster
	Pending  []operators.Cluster
	Next     string
}

func (s *site) clusters(r *http.Request, a operators.Actor) (content, error) {
	page := operators.Page{Limit: clusterRows, Cursor: r.URL.Query().Get("cursor")}
	clusters, err := s.Operators.ListClusters(r.Context(), a, operators.ClusterFilter{}, page)
	if err != nil {
		return content{}, err
	}
	pending, err := s.Operators.ListClusters(r.Context(), a, operators.ClusterFilter{State: operators.ClusterPending}, operators.Page{Limit: tableRows})
	if err != nil {
		return content{}, err
	}
	body := clustersBody{clusters.Items, pending.Items, nextPage("/clusters", r.URL.Query(), clusters.NextCursor)}
	c := content{Title: "Clusters", CLI: "ikhnos cluster list", Body: body}
	if len(pending.Items) > 0 {
		c.Worst = fmt.Sprintf("%d to approve", len(pending.Items))
	}
	return c, nil
}

type certificatesBody struct {
	Leaves []ledger.Entry
	State  string
	Next   string
}

func (s *site) certificates(r *http.Request, a operators.Actor) (content, error) {
	query := r.URL.Query()
	f := ledger.Filter{
		OrgID: a.OrgID, OperatorID: query.Get("operator"), Holder: query.Get("holder"), State: query.Get("state"),
		Limit: tableRows, Cursor: query.Get("cursor"),
	}
	if f.State != "" && !slices.Contains(leafStates, f.State) {
		return content{}, controlapi.NewProblem(controlapi.ReasonRequestMalformed, "A state is valid, superseded, revoked or ended.")
	}
	f.Newest = f.State == "" && f.Holder == ""
	leaves, cursor, err := s.entries(r.Context(), f)
	if err != nil {
		return content{}, err
	}
	body := certificatesBody{leaves, f.State, nextPage("/certificates", query, cursor)}
	return content{Title: "Certificates", CLI: "ikhnos cert list", Body: body}, nil
}

var leafStates = []string{ledger.StateValid, ledger.StateSuperseded, ledger.StateRevoked, ledger.StateEnded}

func (s *site) entries(ctx context.Context, f ledger.Filter) (entries []ledger.Entry, cursor string, err error) {
	err = s.Store.View(ctx, func(tx *ledger.Tx) error {
		entries, cursor, err = tx.Entries(f)
		return err
	})
	if errors.Is(err, ledger.ErrBadCursor) {
		err = controlapi.NewProblem(controlapi.ReasonRequestMalformed, "The cursor did not come from this list.")
	}
	return entries, cursor, err
}

type auditBody struct {
	Entries []trail.Record
	Next    string
}

func (s *site) audit(r *http.Request, a operators.Actor) (content, error) {
	query := r.URL.Query()
	f := trail.Filter{Actor: query.Get("actor"), Event: query.Get("event"), Object: query.Get("object")}
	list, err := trail.List(r.Context(), s.Store, a.OrgID, f, operators.Page{Limit: tableRows, Cursor: query.Get("cursor")})
	if err != nil {
		return content{}, err
	}
	body := auditBody{list.Items, nextPage("/audit", query, list.NextCursor)}
	return content{Title: "Audit", CLI: "ikhnos audit list", Body: body}, nil
}

// nextPage is the address of the next part of a list, "" after the last.
func nextPage(path string, query url.Values, cursor string) string {
	if cursor == "" {
		return ""
	}
	query.Set("cursor", cursor)
	return path + "?" + query.Encode()
}
