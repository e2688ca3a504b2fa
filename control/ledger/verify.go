// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"
)

// Verify walks an operator's chain and compares it with the entries: each issued
// event has its entry, unchanged, unless it was pruned; each revoked leaf is
// revoked; there is no entry without event. It returns the last head that was
// right; an error says what is wrong first.
func (s *Store) Verify(ctx context.Context, operatorID string) (Head, error) {
	var v verification
	err := s.View(ctx, func(tx *Tx) error {
		v = verification{tx: tx, operatorID: operatorID}
		for {
			events, err := tx.EventsAfter(operatorID, v.chain.head.Sequence, verifyPage)
			if err != nil {
				return err
			}
			for _, e := range events {
				if err := v.add(e); err != nil {
					return err
				}
			}
			if len(events) < verifyPage {
				return v.end()
			}
		}
	})
	return v.chain.head, err
}

// verification is one walk along a chain.
type verification struct {
	tx         *Tx
	operatorID string
	chain      Chain
	present    int64     // issued events that have their entry
	lost       time.Time // latest end of an issued leaf without entry
	pruned     time.Time // leaves that ended before it may lack their entry
}

func (v *verification) add(e Event) error {
	if err := v.chain.Add(e); err != nil {
		return err
	}
	if v.chain.head.OperatorID != v.operatorID {
		return fmt.Errorf("event %d is of another operator", v.chain.head.Sequence)
	}
	var event struct {
		Type     string    `json:"type"`
		Serial   string    `json:"serial"`
		Serials  []string  `json:"serials"`
		NotAfter time.Time `json:"notAfter"`
		Before   time.Time `json:"before"`
	}
	if err := json.Unmarshal(e.Event, &event); err != nil {
		return fmt.Errorf("event %d cannot be read: %w", v.chain.head.Sequence, err)
	}
	switch event.Type {
	case EventIssued:
		return v.issued(event.Serial, event.NotAfter, e.Event)
	case EventRevoked:
		return v.revoked(event.Serials)
	case EventPruned:
		v.pruned = event.Before
	}
	return nil
}

func (v *verification) issued(serial string, notAfter time.Time, event json.RawMessage) error {
	entry, err := v.tx.Entry(v.operatorID, serial)
	if errors.Is(err, ErrNotFound) {
		if notAfter.After(v.lost) {
			v.lost = notAfter
		}
		return nil
	}
	if err != nil {
		return err
	}
	v.present++
	var got, want map[string]any
	raw, err := json.Marshal(issuedEvent(entry))
	if err != nil {
		return fmt.Errorf("encoding an entry: %w", err)
	}
	if err := errors.Join(json.Unmarshal(raw, &want), json.Unmarshal(event, &got)); err != nil {
		return fmt.Errorf("event %d cannot be read: %w", v.chain.head.Sequence, err)
	}
	for field := range want {
		if !reflect.DeepEqual(want[field], got[field]) {
			return fmt.Errorf("the entry of leaf %s was changed: %s is not what event %d says", serial, field, v.chain.head.Sequence)
		}
	}
	return nil
}

func (v *verification) revoked(serials []string) error {
	for _, serial := range serials {
		entry, err := v.tx.Entry(v.operatorID, serial)
		switch {
		case errors.Is(err, ErrNotFound): // the issued event has counted it
		case err != nil:
			return err
		case entry.State != StateRevoked:
			return fmt.Errorf("the entry of leaf %s was changed: event %d revoked it", serial, v.chain.head.Sequence)
		}
	}
	return nil
}

func (v *verification) end() error {
	if !v.lost.IsZero() && !v.lost.Before(v.pruned) {
		return fmt.Errorf("an entry is missing: of a leaf that ends at %s", v.lost.Format(time.RFC3339))
	}
	var entries int64
	err := v.tx.QueryRow(`SELECT COUNT(*) FROM entries WHERE operator_id = $1`, v.operatorID).Scan(&entries)
	if err != nil {
		return fmt.Errorf("counting entries: %w", err)
	}
	if entries != v.present {
		return fmt.Errorf("%d entries have no issued event", entries-v.present)
	}
	return nil
}
