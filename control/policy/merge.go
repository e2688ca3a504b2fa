// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// maxSenders bounds how many senders of one instance are kept, whatever names it
// reports.
const maxSenders = 20_000

// stored is a report as it is kept.
type stored struct {
	controlapi.Report
	// CameAtMs is when the first process in the instance's place started, in Unix
	// milliseconds of the server's clock; 0 when not known.
	CameAtMs int64 `json:"cameAtMs,omitempty"`
}

// merged is a report with all that its instance has told of its senders since it
// started: a long report comes in parts, and later ones repeat only the senders
// that changed. Counts are cumulative, so the newest line of a sender says it all.
func merged(tx *ledger.Tx, operatorID string, r *controlapi.Report) (*stored, error) {
	before := stored{CameAtMs: cameAt(r, tx.Now())}
	var text string
	err := tx.QueryRow(`SELECT report FROM reports WHERE operator_id = $1 AND instance = $2`, operatorID, r.Instance).Scan(&text)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	if err == nil {
		before.CameAtMs = 0
		if err := json.Unmarshal([]byte(text), &before); err != nil {
			return nil, fmt.Errorf("reading the report before: %w", err)
		}
	}
	if !before.StartedAt.Equal(r.StartedAt) {
		before.Senders = nil
	}
	whole := stored{Report: *r, CameAtMs: before.CameAtMs}
	whole.Senders = make([]controlapi.ReportSender, 0, len(before.Senders)+len(r.Senders))
	at := make(map[string]int, cap(whole.Senders))
	for _, lines := range [][]controlapi.ReportSender{before.Senders, r.Senders} {
		for _, line := range lines {
			if i, known := at[line.Name]; known {
				whole.Senders[i] = line
			} else if len(at) < maxSenders {
				at[line.Name] = len(at)
				whole.Senders = append(whole.Senders, line)
			}
		}
	}
	return &whole, nil
}

// cameAt is when the process of r started, at the latest now.
func cameAt(r *controlapi.Report, now time.Time) int64 {
	if r.StartedAt.IsZero() {
		return 0
	}
	return min(r.StartedAt.UnixMilli()+r.ClockOffsetMs, now.UnixMilli())
}
