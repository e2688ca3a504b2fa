// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"bytes"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gowebpki/jcs"
)

// verifyPage is how many events are read at a time when a chain is walked.
const verifyPage = 1000

// Append adds an event, which needs a "type", to an operator's chain and returns
// its sequence number. sequence, operatorId and at are added here, to the map given.
func (tx *Tx) Append(operatorID string, event map[string]any) (int64, error) {
	sequence, previous, err := tx.head(operatorID)
	if err != nil {
		return 0, err
	}
	return tx.appendAfter(sequence, previous, operatorID, event)
}

// appendAfter is Append where the last event's number and hash are known.
func (tx *Tx) appendAfter(sequence int64, previous []byte, operatorID string, event map[string]any) (int64, error) {
	sequence++
	event["sequence"], event["operatorId"], event["at"] = sequence, operatorID, tx.now.Format(time.RFC3339)
	canonical, err := canonicalJSON(event)
	if err != nil {
		return 0, fmt.Errorf("encoding an event: %w", err)
	}
	_, err = tx.Exec(`INSERT INTO events (operator_id, sequence, event, hash) VALUES ($1, $2, $3, $4)`,
		operatorID, sequence, string(canonical), link(previous, canonical))
	if err != nil {
		return 0, fmt.Errorf("appending an event: %w", err)
	}
	return sequence, nil
}

// Head is the end of an operator's chain.
func (tx *Tx) Head(operatorID string) (Head, error) {
	sequence, hash, err := tx.head(operatorID)
	return Head{OperatorID: operatorID, Sequence: sequence, Hash: hex.EncodeToString(hash)}, err
}

func (tx *Tx) head(operatorID string) (sequence int64, hash []byte, err error) {
	err = tx.QueryRow(`SELECT sequence, hash FROM events WHERE operator_id = $1 ORDER BY sequence DESC LIMIT 1`,
		operatorID).Scan(&sequence, &hash)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, make([]byte, sha256.Size), nil
	}
	if err != nil {
		return 0, nil, fmt.Errorf("reading the head of a chain: %w", err)
	}
	return sequence, hash, nil
}

// EventsAfter returns the next events of an operator's chain, at most limit, in
// order. The chain starts after 0.
func (tx *Tx) EventsAfter(operatorID string, sequence int64, limit int) ([]Event, error) {
	rows, err := tx.Query(`SELECT event, hash FROM events WHERE operator_id = $1 AND sequence > $2
		ORDER BY sequence LIMIT $3`, operatorID, sequence, limit)
	if err != nil {
		return nil, fmt.Errorf("reading events: %w", err)
	}
	defer func() { _ = rows.Close() }() // rows.Err tells
	var events []Event
	for rows.Next() {
		var event string
		var hash []byte
		if err := rows.Scan(&event, &hash); err != nil {
			return nil, fmt.Errorf("reading an event: %w", err)
		}
		events = append(events, Event{Event: json.RawMessage(event), Hash: hex.EncodeToString(hash)})
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("reading events: %w", err)
	}
	return events, nil
}

// link is the hash of an event after the hash before it.
func link(previous, canonical []byte) []byte {
	h := sha256.New()
	h.Write(previous)
	h.Write(canonical)
	return h.Sum(nil)
}

// Chain walks the events of one operator, from the store or from an exported
// file, and finds the first that does not follow from what came before. The zero
// value stands before the first event.
type Chain struct {
	head Head
	hash []byte
}

// Head is the last event that was right.
func (c *Chain) Head() Head { return c.head }

// Add checks the next event: its number, its operator, and its hash.
func (c *Chain) Add(e Event) error {
	next := c.head.Sequence + 1
	canonical, err := jcs.Transform(e.Event)
	if err != nil {
		return fmt.Errorf("event %d is not valid JSON: %w", next, err)
	}
	var fields struct {
		Sequence   int64  `json:"sequence"`
		OperatorID string `json:"operatorId"`
	}
	if err := json.Unmarshal(canonical, &fields); err != nil {
		return fmt.Errorf("event %d cannot be read: %w", next, err)
	}
	if fields.Sequence != next {
		return fmt.Errorf("event %d is missing: %d follows instead", next, fields.Sequence)
	}
	if next > 1 && fields.OperatorID != c.head.OperatorID {
		return fmt.Errorf("event %d is of another operator", next)
	}
	if c.hash == nil {
		c.hash = make([]byte, sha256.Size)
	}
	want := link(c.hash, canonical)
	got, err := hex.DecodeString(e.Hash)
	if err != nil || !bytes.Equal(got, want) {
		return fmt.Errorf("event %d was changed: its hash is %s, not %s", next, hex.EncodeToString(want), e.Hash)
	}
	c.hash = want
	c.head = Head{OperatorID: fields.OperatorID, Sequence: next, Hash: e.Hash}
	return nil
}
