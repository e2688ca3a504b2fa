// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// Media types of streams.
const (
	chainMedia = "application/jsonl"
	eventMedia = "text/event-stream"
)

// ledgerLines is how many events of a chain one answer holds.
const ledgerLines = 1000

// ledgerPaths registers what was issued, receipts, the chain and live changes.
func (s *Server) ledgerPaths() {
	filters := []string{"limit", "cursor", "holder", "role", "state", "endsBefore", "newest"}
	admin(s, endpoint{method: http.MethodGet, path: operatorPath + "/certificates", role: operators.RoleViewer, query: filters, summary: "The ledger of one operator"},
		listing(func(ctx context.Context, r *request, p operators.Page) (operators.List[ledger.Entry], error) {
			return s.entries(ctx, r, p, r.id("id"))
		}))
	admin(s, endpoint{method: http.MethodGet, path: orgPath + "/certificates", role: operators.RoleViewer, query: append(filters, "operator"), summary: "The ledger of all operators"},
		listing(func(ctx context.Context, r *request, p operators.Page) (operators.List[ledger.Entry], error) {
			return s.entries(ctx, r, p, "")
		}))
	admin(s, endpoint{method: http.MethodPost, path: orgPath + "/certificates/adopt", role: operators.RoleAdmin,
		summary: "After a restore: admit leaves that our CAs signed and the ledger lacks"},
		func(ctx context.Context, r *request, in operators.AdoptRequest) (operators.Adoptions, error) {
			return s.cfg.Operators.Adopt(ctx, r.actor, in)
		})
	admin(s, endpoint{method: http.MethodPost, path: operatorPath + "/certificates/{serial}/revoke", role: operators.RoleAdmin, query: withWait, bodyOptional: true,
		summary: "Revoke one leaf and what was renewed from it"},
		func(ctx context.Context, r *request, in operators.NoteRequest) (*controlapi.Receipt, error) {
			return s.receipted(ctx, r, func() (*controlapi.Receipt, error) {
				return s.cfg.Operators.RevokeCertificate(ctx, r.actor, r.id("id"), r.id("serial"), in)
			})
		})
	admin(s, endpoint{method: http.MethodGet, path: operatorPath + "/ledger/head", role: operators.RoleViewer, summary: "The end of an operator's hash chain"},
		func(ctx context.Context, r *request, _ none) (head ledger.Head, err error) {
			return head, s.viewOperator(ctx, r, func(tx *ledger.Tx, id string) error {
				head, err = tx.Head(id)
				return err
			})
		})
	admin(s, endpoint{method: http.MethodGet, path: orgPath + "/receipts/{receipt}", role: operators.RoleViewer, query: withWait, summary: "Where a revocation has bitten"},
		func(ctx context.Context, r *request, _ none) (*controlapi.Receipt, error) {
			wait, err := waitOf(r.URL.Query(), maxReceiptWait)
			if err != nil {
				return nil, err
			}
			return s.cfg.Policy.Receipt(ctx, r.actor.OrgID, r.id("receipt"), wait)
		})
	s.stream(endpoint{method: http.MethodGet, path: operatorPath + "/ledger", role: operators.RoleViewer, query: []string{"after"}, media: chainMedia,
		summary: "Lines of an operator's hash chain (JSON Lines)"}, s.chain)
	s.stream(endpoint{method: http.MethodGet, path: orgPath + "/events", role: operators.RoleViewer, media: eventMedia,
		summary: "Live changes (server-sent events)"}, s.events)
}

// stream registers an operation of the administration that writes its own body.
func (s *Server) stream(e endpoint, fn func(http.ResponseWriter, *http.Request) error) {
	op := s.describe(e, reflect.TypeFor[none](), reflect.TypeFor[none]())
	s.adminAPI.Handle(op, func(hc huma.Context) {
		r, w := humago.Unwrap(hc)
		if err := fn(w, r); err != nil {
			s.refuse(w, r, err)
		}
	})
}

// entries lists the ledger; with an operator it has to be one of the actor's.
func (s *Server) entries(ctx context.Context, r *request, p operators.Page, operatorID string) (list operators.List[ledger.Entry], err error) {
	query := r.URL.Query()
	f := ledger.Filter{OrgID: r.actor.OrgID, OperatorID: operatorID, Holder: query.Get("holder"), Cursor: p.Cursor, Limit: p.Limit}
	if f.Role, err = oneOf(r, "role", leafRoles...); err != nil {
		return list, err
	}
	if f.State, err = oneOf(r, "state", leafStates...); err != nil {
		return list, err
	}
	if f.EndsBefore, err = r.instant("endsBefore"); err != nil {
		return list, err
	}
	if f.Newest, err = r.flag("newest"); err != nil {
		return list, err
	}
	if operatorID == "" {
		f.OperatorID = query.Get("operator")
	} else if _, err := s.cfg.Operators.GetOperator(ctx, r.actor, operatorID); err != nil {
		return list, err
	}
	err = s.cfg.Store.View(ctx, func(tx *ledger.Tx) error {
		list.Items, list.NextCursor, err = tx.Entries(f)
		return err
	})
	if errors.Is(err, ledger.ErrBadCursor) {
		return list, malformed("The cursor did not come from this list with these filters; begin without one.")
	}
	if list.Items == nil {
		list.Items = []ledger.Entry{}
	}
	return list, err
}

// viewOperator reads something of the path's operator, which has to be one of
// the actor's organisation.
func (s *Server) viewOperator(ctx context.Context, r *request, fn func(tx *ledger.Tx, id string) error) error {
	op, err := s.cfg.Operators.GetOperator(ctx, r.actor, r.id("id"))
	if err != nil {
		return err
	}
	return s.cfg.Store.View(ctx, func(tx *ledger.Tx) error { return fn(tx, op.ID) })
}

// chain writes up to ledgerLines events that follow ?after=, one a line.
func (s *Server) chain(w http.ResponseWriter, hr *http.Request) error {
	actor, err := s.authorize(hr, operators.RoleViewer)
	if err != nil {
		return err
	}
	if err := checkQuery(hr.URL.RawQuery, []string{"after"}); err != nil {
		return err
	}
	var after int64
	if text := hr.URL.Query().Get("after"); text != "" {
		if after, err = strconv.ParseInt(text, 10, 64); err != nil || after < 0 {
			return malformed("The parameter after is the sequence of an event, a number from 0.")
		}
	}
	var events []ledger.Event
	r := &request{Request: hr, w: w, actor: actor}
	err = s.viewOperator(hr.Context(), r, func(tx *ledger.Tx, id string) error {
		events, err = tx.EventsAfter(id, after, ledgerLines)
		return err
	})
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", chainMedia)
	w.Header().Set("Cache-Control", "no-store")
	lines := json.NewEncoder(w)
	lines.SetEscapeHTML(false) // the hash is over the bytes of the event
	for _, event := range events {
		if err := lines.Encode(event); err != nil {
			return fmt.Errorf("writing an event: %w", err)
		}
	}
	return nil
}

func (s *Server) version(ctx context.Context) (v ledger.Version, err error) {
	err = s.cfg.Store.View(ctx, func(tx *ledger.Tx) error {
		v, err = tx.Version()
		return err
	})
	return v, err
}
