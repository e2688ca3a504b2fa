// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/ikhnos/continuum/control/ledger"
)

// maxLedgerLine bounds one line of an export; an event is far below it.
const maxLedgerLine = 1 << 20

// parseLedgerLine reads {"event": {…}, "hash": "<hex>"} and nothing else.
func parseLedgerLine(line []byte) (ledger.Event, error) {
	var event ledger.Event
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&event); err != nil {
		return event, fmt.Errorf("not an event line: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return event, errors.New("not an event line: more than one document")
	}
	if len(event.Event) == 0 || event.Event[0] != '{' || event.Hash == "" {
		return event, errors.New("not an event line: event or hash is missing")
	}
	return event, nil
}

// chainResult is what a walk along one operator's chain found.
type chainResult struct {
	OperatorID string `json:"operatorId"`
	Entries    int64  `json:"entries"`
	Hash       string `json:"hash"` // of the last good event
	FirstBad   int64  `json:"firstBad,omitempty"`
	Fault      string `json:"fault,omitempty"`

	chain  ledger.Chain
	wanted wantedHeads // of a file, which says only in its first event whose chain it is
	must   passage
}

// passage is a hash that a chain must pass through: at sequence, or anywhere
// when that is 0.
type passage struct {
	sequence int64
	hash     string
	seen     bool
}

// read walks on along r. Only a failure to read is an error; a broken chain says
// so in its Fault.
func (c *chainResult) read(r io.Reader) error {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, maxLedgerLine)
	for c.Fault == "" && scanner.Scan() {
		if len(bytes.TrimSpace(scanner.Bytes())) > 0 {
			c.add(scanner.Bytes())
		}
	}
	if errors.Is(scanner.Err(), bufio.ErrTooLong) {
		c.fail("its line is too long")
		return nil
	}
	return scanner.Err()
}

// add takes the line of the next event.
func (c *chainResult) add(line []byte) {
	event, err := parseLedgerLine(line)
	if err == nil {
		err = c.chain.Add(event)
	}
	if err != nil {
		c.fail(err.Error())
		return
	}
	head := c.chain.Head()
	if c.OperatorID != "" && c.OperatorID != head.OperatorID {
		c.fail("it is of another operator")
		return
	}
	c.OperatorID, c.Entries, c.Hash = head.OperatorID, head.Sequence, head.Hash
	if c.must.hash == "" {
		c.must = c.wanted.of(head.OperatorID)
	}
	if head.Hash == c.must.hash {
		c.must.seen = true
	}
}

// end says what a chain lacks that has ended here.
func (c *chainResult) end() {
	switch {
	case c.Fault != "" || c.must.seen || c.must.hash == "":
	case c.must.sequence > c.Entries:
		c.fail(fmt.Sprintf("it is missing: the head is %d", c.must.sequence))
	case c.must.sequence > 0:
		c.FirstBad, c.Fault = c.must.sequence, "it has another hash than the head that the server names, or that was kept"
	default:
		c.fail("the chain does not hold the hash of --head: it was rewritten or cut")
	}
}

// fail records what is wrong with the event after the last good one.
func (c *chainResult) fail(fault string) { c.FirstBad, c.Fault = c.Entries+1, fault }
