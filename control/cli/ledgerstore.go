// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ikhnos/continuum/control/ledger"
)

// wantedHeads are what --head names: one hash, or heads by operator.
type wantedHeads struct {
	hash  string
	heads map[string]ledger.Head
}

// of is what the chain of an operator must pass through.
func (w wantedHeads) of(operatorID string) passage {
	head := w.heads[operatorID]
	return passage{sequence: head.Sequence, hash: w.hash + head.Hash}
}

var hexHash = regexp.MustCompile(`^[0-9a-f]{64}$`)

// readWantedHeads takes a hash, or a file with what ledger head or backup verify
// -o json printed.
func readWantedHeads(value string) (wantedHeads, error) {
	if value == "" || hexHash.MatchString(value) {
		return wantedHeads{hash: value}, nil
	}
	content, err := readable("head", value)
	if err != nil {
		return wantedHeads{}, err
	}
	heads, err := parseHeads(content)
	if err != nil {
		return wantedHeads{}, usageError("the file of --head holds no head: %v", err)
	}
	w := wantedHeads{heads: map[string]ledger.Head{}}
	for _, head := range heads {
		w.heads[head.OperatorID] = head
	}
	return w, nil
}

func parseHeads(content []byte) (heads []ledger.Head, err error) {
	if content = bytes.TrimSpace(content); bytes.HasPrefix(content, []byte("{")) {
		var document struct {
			ledger.Head
			Heads []ledger.Head `json:"heads"`
		}
		err = json.Unmarshal(content, &document)
		heads = append(document.Heads, document.Head)
		if document.OperatorID == "" {
			heads = document.Heads
		}
	} else {
		for line := range strings.Lines(string(content)) {
			words := strings.Fields(line)
			if len(words) != 3 {
				return nil, errors.New("a line is not OPERATOR SEQUENCE HASH")
			}
			head := ledger.Head{OperatorID: words[0], Hash: words[2]}
			if head.Sequence, err = strconv.ParseInt(words[1], 10, 64); err != nil {
				return nil, errors.New("a sequence is not a number")
			}
			heads = append(heads, head)
		}
	}
	if err == nil && len(heads) == 0 {
		err = errors.New("it is empty")
	}
	for _, head := range heads {
		if err == nil && !hexHash.MatchString(head.Hash) {
			err = errors.New("a hash is not 64 hexadecimal digits")
		}
	}
	return heads, err
}

// wantsStore reports whether the data is to be read without a server: somebody
// said where it is, and named no server.
func wantsStore(cmd *cobra.Command) (bool, error) {
	if isSet(cmd, "server") || isSet(cmd, "context") {
		return false, nil
	}
	if err := fillStoreFlags(cmd); err != nil {
		return false, err
	}
	for _, name := range dataFlags {
		if isSet(cmd, name) {
			return true, nil
		}
	}
	return false, nil
}

// verifyStore walks chains in the server's data and compares the entries with
// them: of one operator, or of every one that has a chain or a head was kept of.
func verifyStore(cmd *cobra.Command, operatorIDs []string, wanted wantedHeads) (err error) {
	store, err := attachStore(cmd)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if len(operatorIDs) == 0 {
		err = store.View(cmd.Context(), func(tx *ledger.Tx) (err error) {
			operatorIDs, err = chainOwners(tx)
			return err
		})
		if err != nil {
			return damagedStore(err)
		}
		for id := range wanted.heads {
			operatorIDs = append(operatorIDs, id)
		}
		operatorIDs = slices.Compact(slices.Sorted(slices.Values(operatorIDs)))
	}
	chains := make([]*chainResult, 0, len(operatorIDs))
	for _, id := range operatorIDs {
		c, err := verifyStored(cmd, store, id, wanted)
		if err != nil {
			return damagedStore(err)
		}
		chains = append(chains, c)
	}
	return showChains(cmd, chains)
}

// damagedStore is the error of a database that cannot even be read: a finding.
func damagedStore(err error) error {
	return &exitError{exitFound, fmt.Errorf("the database cannot be read: %w", err)}
}

func chainOwners(tx *ledger.Tx) (ids []string, err error) {
	rows, err := tx.Query(`SELECT id FROM operators UNION SELECT operator_id FROM events`)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // rows.Err tells
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// verifyStored verifies one chain; only a failure to read is an error.
func verifyStored(cmd *cobra.Command, store *ledger.Store, operatorID string, wanted wantedHeads) (*chainResult, error) {
	head, fault := store.Verify(cmd.Context(), operatorID)
	c := &chainResult{OperatorID: operatorID, Entries: head.Sequence, Hash: head.Hash, must: wanted.of(operatorID)}
	switch {
	case cmd.Context().Err() != nil:
		return nil, cmd.Context().Err()
	case fault != nil:
		c.fail(fault.Error())
		return c, nil
	case head.Sequence == 0 && c.must.hash == "":
		c.fail("it is missing: the operator has no chain")
		return c, nil
	}
	if err := c.look(cmd.Context(), store); err != nil {
		return nil, err
	}
	c.end()
	return c, nil
}

// look finds the hash that a stored chain must pass through.
func (c *chainResult) look(ctx context.Context, store *ledger.Store) error {
	sum, err := hex.DecodeString(c.must.hash)
	if err != nil || len(sum) == 0 {
		return err
	}
	return store.View(ctx, func(tx *ledger.Tx) error {
		var sequence int64
		err := tx.QueryRow(`SELECT sequence FROM events WHERE operator_id = $1 AND hash = $2`, c.OperatorID, sum).Scan(&sequence)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		c.must.seen = c.must.sequence == 0 || c.must.sequence == sequence
		return err
	})
}
