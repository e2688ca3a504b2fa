// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/pki"
)

// writer writes lines and hashes them.
type writer struct {
	out  *bufio.Writer
	hash hash.Hash
	rows map[string]int64
}

// Write writes one unchanging state of the store to w, while a server may go on
// changing it. program is the version of the running program.
func Write(ctx context.Context, store *ledger.Store, w io.Writer, program string) (*Summary, error) {
	b := &writer{out: bufio.NewWriterSize(w, 1<<16), hash: sha256.New(), rows: map[string]int64{}}
	var s Summary
	err := store.View(ctx, func(tx *ledger.Tx) (err error) {
		if s.Header, err = header(tx, program); err != nil {
			return err
		}
		if err := b.line(s.Header); err != nil {
			return err
		}
		for _, table := range tables {
			if err := b.table(tx, table); err != nil {
				return fmt.Errorf("table %s: %w", table, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("writing a backup: %w", err)
	}
	s.trailer = trailer{Rows: b.rows, SHA256: hex.EncodeToString(b.hash.Sum(nil))}
	if err := b.line(s.trailer); err != nil {
		return nil, fmt.Errorf("writing a backup: %w", err)
	}
	if err := b.out.Flush(); err != nil {
		return nil, fmt.Errorf("writing a backup: %w", err)
	}
	return &s, nil
}

func header(tx *ledger.Tx, program string) (h Header, err error) {
	h = Header{Format: formatName, Version: formatVersion, Program: program, CreatedAt: tx.Now(), Keys: KeysPlain}
	if h.Schema, err = tx.Schema(); err != nil {
		return h, err
	}
	if h.At, err = tx.Version(); err != nil {
		return h, err
	}
	sealing, _, err := tx.Setting(pki.SettingSealing)
	if pki.SettingSealed(sealing) {
		h.Keys = KeysSealed
	}
	return h, err
}

func (b *writer) line(content any) error {
	line, err := json.Marshal(content)
	if err != nil {
		return err
	}
	return b.raw(line)
}

func (b *writer) raw(line []byte) error {
	line = append(line, '\n')
	_, _ = b.hash.Write(line) // never fails
	_, err := b.out.Write(line)
	return err
}

// table writes a table; events come in the order of their chains.
func (b *writer) table(tx *ledger.Tx, table string) error {
	query := `SELECT * FROM ` + table
	if table == tableEvents {
		query += ` ORDER BY operator_id, sequence`
	}
	rows, err := tx.Query(query)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // rows.Err tells
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	if err := b.line(tableLine{table, columns}); err != nil {
		return err
	}
	values, targets := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		targets[i] = &values[i]
	}
	b.rows[table] = 0
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return err
		}
		line, err := encodeRow(values)
		if err != nil {
			return err
		}
		if err := b.raw(line); err != nil {
			return err
		}
		b.rows[table]++
	}
	return rows.Err()
}
