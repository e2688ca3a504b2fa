// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package trail

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// Record is one line of the audit trail.
type Record struct {
	Sequence  int64          `json:"sequence"`
	At        time.Time      `json:"at"`
	Actor     string         `json:"actor"`
	Event     string         `json:"event"`
	Object    string         `json:"object"`
	Detail    map[string]any `json:"detail"`
	RequestID string         `json:"requestId"`
	Address   string         `json:"address"`
}

// Filter chooses lines; empty fields do not restrict.
type Filter struct {
	Actor, Event, Object string
	Since                time.Time
}

const (
	defaultLimit = 100
	maxLimit     = 500
)

// List reads the trail of an organisation, newest first. The cursor of a part is
// the sequence of its last line; another is request_malformed.
func List(ctx context.Context, store *ledger.Store, orgID string, f Filter, p operators.Page) (list operators.List[Record], err error) {
	limit := p.Limit
	if limit == 0 {
		limit = defaultLimit
	}
	before := int64(1) << 62
	if p.Cursor != "" {
		before, err = strconv.ParseInt(p.Cursor, 10, 64)
	}
	if err != nil || before < 1 || limit < 1 || limit > maxLimit {
		return list, controlapi.NewProblem(controlapi.ReasonRequestMalformed, "The cursor did not come from this list; begin without one.")
	}
	err = store.View(ctx, func(tx *ledger.Tx) error {
		list.Items, err = read(tx, orgID, before, f, limit+1)
		return err
	})
	if err != nil {
		return list, fmt.Errorf("reading the audit trail: %w", err)
	}
	if len(list.Items) > limit {
		list.Items = list.Items[:limit]
		list.NextCursor = strconv.FormatInt(list.Items[limit-1].Sequence, 10)
	}
	return list, nil
}

func read(tx *ledger.Tx, orgID string, before int64, f Filter, limit int) ([]Record, error) {
	rows, err := tx.Query(`SELECT sequence, at, actor, event, object, detail, request_id, address FROM audit
		WHERE org_id = $1 AND sequence < $2 AND at >= $3 AND ($4 = '' OR actor = $4) AND ($5 = '' OR event = $5)
		AND ($6 = '' OR object = $6) ORDER BY sequence DESC LIMIT $7`,
		orgID, before, f.Since.Unix(), f.Actor, f.Event, f.Object, limit)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // rows.Err tells
	entries := []Record{}
	for rows.Next() {
		var e Record
		var at int64
		var detail string
		if err := rows.Scan(&e.Sequence, &at, &e.Actor, &e.Event, &e.Object, &detail, &e.RequestID, &e.Address); err != nil {
			return nil, err
		}
		e.At = time.Unix(at, 0).UTC()
		if err := json.Unmarshal([]byte(detail), &e.Detail); err != nil {
			return nil, fmt.Errorf("reading a detail: %w", err)
		}
		entries = append(entries, e)
	}
	return entries, rows.Err()
}
