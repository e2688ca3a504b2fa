// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"

	"github.com/ikhnos/continuum/control/ledger"
)

// Reader reads one backup, once.
type Reader struct {
	in     *bufio.Reader
	hash   hash.Hash // of the lines that were taken
	header Header
	rows   map[string]int64
	chains map[string]*ledger.Chain
}

// NewReader reads the header of a backup. It refuses what is none and what a
// newer program made.
func NewReader(r io.Reader) (*Reader, error) {
	b := &Reader{in: bufio.NewReaderSize(r, 1<<16), hash: sha256.New(), rows: map[string]int64{}, chains: map[string]*ledger.Chain{}}
	line, err := b.next()
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(line, &b.header); err != nil || b.header.Format != formatName {
		return nil, fmt.Errorf("%w: it does not begin like one", ErrDamaged)
	}
	if b.header.Version > formatVersion {
		return nil, ErrNewer
	}
	b.take(line)
	return b, nil
}

// Header is the first line, to be trusted once the whole file is verified.
func (b *Reader) Header() Header { return b.header }

// Verify reads the rest, checks the checksum and walks every hash chain. What is
// wrong is ErrDamaged.
func (b *Reader) Verify() (*Summary, error) {
	return b.read(func(*tableLine, []any) error { return nil })
}

// read calls row for every row and returns once all has been right.
func (b *Reader) read(row func(t *tableLine, values []any) error) (*Summary, error) {
	var t *tableLine
	for {
		line, err := b.next()
		if err != nil {
			return nil, err
		}
		if line[0] == '{' {
			if end, err := b.end(line); end != nil || err != nil {
				return end, err
			}
			if t, err = b.begin(line); err != nil {
				return nil, err
			}
			b.take(line)
			continue
		}
		if t == nil {
			return nil, fmt.Errorf("%w: a row is outside any table", ErrDamaged)
		}
		values, err := b.rowOf(t, line)
		if err != nil {
			return nil, fmt.Errorf("%w: table %s: %w", ErrDamaged, t.Table, err)
		}
		b.take(line)
		if err := row(t, values); err != nil {
			return nil, fmt.Errorf("table %s: %w", t.Table, err)
		}
	}
}

// next reads a line with its end.
func (b *Reader) next() ([]byte, error) {
	var line []byte
	for {
		part, err := b.in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil && len(line) > 1:
			return line, nil
		case err == nil:
			return nil, fmt.Errorf("%w: a line is empty", ErrDamaged)
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("%w: its end is missing", ErrDamaged)
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("reading a backup: %w", err)
		case len(line) > maxLine:
			return nil, fmt.Errorf("%w: a line is too long", ErrDamaged)
		}
	}
}

func (b *Reader) take(line []byte) { _, _ = b.hash.Write(line) } // never fails

// begin starts a table: each that is there once, in order.
func (b *Reader) begin(line []byte) (*tableLine, error) {
	var t tableLine
	if err := json.Unmarshal(line, &t); err != nil {
		return nil, fmt.Errorf("%w: reading a table: %w", ErrDamaged, err)
	}
	if _, twice := b.rows[t.Table]; twice || !slices.Contains(tables, t.Table) {
		return nil, fmt.Errorf("%w: a table does not belong there", ErrDamaged)
	}
	b.rows[t.Table] = 0
	return &t, nil
}

func (b *Reader) rowOf(t *tableLine, line []byte) ([]any, error) {
	values, err := decodeRow(line, len(t.Columns))
	if err != nil {
		return nil, err
	}
	b.rows[t.Table]++
	if t.Table != tableEvents {
		return values, nil
	}
	return values, b.event(t.Columns, values)
}

// event takes the next event of a chain.
func (b *Reader) event(columns []string, values []any) error {
	cell := func(name string) any {
		if i := slices.Index(columns, name); i >= 0 {
			return values[i]
		}
		return nil
	}
	operatorID, _ := cell("operator_id").(string)
	event, _ := cell("event").(string)
	sum, _ := cell("hash").([]byte)
	chain := b.chains[operatorID]
	if chain == nil {
		chain = &ledger.Chain{}
		b.chains[operatorID] = chain
	}
	if err := chain.Add(ledger.Event{Event: json.RawMessage(event), Hash: hex.EncodeToString(sum)}); err != nil {
		return fmt.Errorf("chain of %s: %w", operatorID, err)
	}
	if got := chain.Head().OperatorID; got != operatorID {
		return fmt.Errorf("chain of %s: it holds events of %s", operatorID, got)
	}
	return nil
}

// end checks the last line; it returns nothing for another one.
func (b *Reader) end(line []byte) (*Summary, error) {
	if !bytes.HasPrefix(line, []byte(`{"rows":`)) {
		return nil, nil
	}
	found := trailer{Rows: b.rows, SHA256: hex.EncodeToString(b.hash.Sum(nil))}
	want, err := json.Marshal(found)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(line, append(want, '\n')) {
		return nil, fmt.Errorf("%w: its checksum or its counts are wrong", ErrDamaged)
	}
	if _, err := b.in.ReadByte(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: something follows its end", ErrDamaged)
	}
	s := &Summary{Header: b.header, trailer: found, Heads: []ledger.Head{}}
	for _, chain := range b.chains {
		s.Heads = append(s.Heads, chain.Head())
	}
	slices.SortFunc(s.Heads, func(a, b ledger.Head) int { return cmp.Compare(a.OperatorID, b.OperatorID) })
	return s, nil
}
