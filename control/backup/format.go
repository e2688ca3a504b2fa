// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/ikhnos/continuum/control/ledger"
)

const (
	formatName = "ikhnos-backup"
	// formatVersion is that of the lines, beside the schema's own.
	formatVersion = 1
	// maxLine bounds one line: the largest column is the last policy of an operator.
	maxLine = 64 << 20
)

// Errors that callers tell apart.
var (
	// ErrDamaged: the file is no backup, or not whole, or was changed.
	ErrDamaged = errors.New("the backup is damaged")
	// ErrNewer: a newer program made the file.
	ErrNewer = errors.New("the backup was made by a newer ikhnos: use that version or a later one")
	// ErrNotEmpty: a restore never overwrites.
	ErrNotEmpty = errors.New("the database is not empty")
)

// tables are all that a backup holds, in an order in which rows refer to earlier
// ones. sessions are not among them.
var tables = []string{
	"settings", "change_counter", "organisations", "admin_tokens", "clusters", "operators", "senders",
	"enrollment_tokens", "entries", tableEvents, "refused_renewals", "used_proofs", "unknown_leaves", "lost_denials", "reports",
	"receipts", "receipt_instances", "audit",
}

const tableEvents = "events"

// Whether the private keys in a backup are sealed with the server's passphrase.
const (
	KeysSealed = "sealed"
	KeysPlain  = "plain"
)

// Header is the first line of a backup.
type Header struct {
	Format    string    `json:"format"`
	Version   int       `json:"version"`
	Schema    int64     `json:"schema"`
	Program   string    `json:"program"` // version of the ikhnos that made it
	CreatedAt time.Time `json:"createdAt"`
	Keys      string    `json:"keys"`
	// At is the last change that the backup holds.
	At ledger.Version `json:"at"`
}

// tableLine begins a table.
type tableLine struct {
	Table   string   `json:"table"`
	Columns []string `json:"columns"`
}

// trailer is the last line.
type trailer struct {
	Rows   map[string]int64 `json:"rows"` // by table
	SHA256 string           `json:"sha256"`
}

// Summary says what a backup holds.
type Summary struct {
	Header
	trailer
	Heads []ledger.Head `json:"heads"` // the ends of the chains, each walked from its beginning
}

// cellBytes is how a row holds bytes.
type cellBytes struct {
	B64 []byte `json:"b64"`
}

// encodeRow writes what a database driver returned.
func encodeRow(values []any) ([]byte, error) {
	cells := make([]any, len(values))
	for i, value := range values {
		switch v := value.(type) {
		case nil, int64:
			cells[i] = v
		case string:
			if !utf8.ValidString(v) {
				return nil, errors.New("a text is not UTF-8")
			}
			cells[i] = v
		case []byte:
			cells[i] = cellBytes{append([]byte{}, v...)} // a driver may return nil for none
		default:
			return nil, fmt.Errorf("a value has the unexpected type %T", value)
		}
	}
	return json.Marshal(cells)
}

// decodeRow reads a line of encodeRow with that many values.
func decodeRow(line []byte, columns int) ([]any, error) {
	var cells []json.RawMessage
	if err := json.Unmarshal(line, &cells); err != nil {
		return nil, fmt.Errorf("reading a row: %w", err)
	}
	if len(cells) != columns {
		return nil, fmt.Errorf("a row has %d values for %d columns", len(cells), columns)
	}
	values := make([]any, columns)
	for i, cell := range cells {
		var err error
		if values[i], err = decodeCell(cell); err != nil {
			return nil, fmt.Errorf("reading a value: %w", err)
		}
	}
	return values, nil
}

func decodeCell(cell json.RawMessage) (any, error) {
	switch cell[0] {
	case 'n':
		return nil, nil
	case '"':
		var text string
		err := json.Unmarshal(cell, &text)
		return text, err
	case '{':
		var bytes cellBytes
		err := json.Unmarshal(cell, &bytes)
		if bytes.B64 == nil {
			bytes.B64 = []byte{} // empty is not null
		}
		return bytes.B64, err
	default:
		return strconv.ParseInt(string(cell), 10, 64)
	}
}
