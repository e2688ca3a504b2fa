// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// kept is the stored report of an instance of op-eu.
func (f *fixture) kept(instance string) (r controlapi.Report) {
	f.t.Helper()
	require.NoError(f.t, f.store.View(f.ctx, func(tx *ledger.Tx) error {
		var text string
		if err := tx.QueryRow(`SELECT report FROM reports WHERE operator_id = 'op-eu' AND instance = $1`, instance).Scan(&text); err != nil {
			return err
		}
		return json.Unmarshal([]byte(text), &r)
	}))
	return r
}

func line(name string, logs int64) controlapi.ReportSender {
	return controlapi.ReportSender{Name: name, Accepted: controlapi.SignalCounts{Logs: logs}}
}

// Contract, section 11: "Report counts are cumulative since `startedAt`", so the
// parts of a report, and later ones with the senders that changed, add up.
func TestReportInParts(t *testing.T) {
	f := newFixture(t, "c1")
	send := func(instance string, started time.Time, lines ...controlapi.ReportSender) {
		r := reportAt(instance, controlapi.Version{Epoch: 1})
		r.StartedAt, r.Senders = started, lines
		_, err := f.record(r)
		require.NoError(t, err)
	}
	first, second := time.Unix(100, 0).UTC(), time.Unix(200, 0).UTC()
	send("i1", first, line("a", 1), line("b", 2))
	send("i1", first, line("c", 3))
	send("i1", first, line("b", 5))
	send("i1", first)
	send("i2", first, line("a", 7))
	assert.Equal(t, []controlapi.ReportSender{line("a", 1), line("b", 5), line("c", 3)}, f.kept("i1").Senders)
	assert.Equal(t, []controlapi.ReportSender{line("a", 7)}, f.kept("i2").Senders, "instances do not mix")
	send("i1", second, line("c", 1))
	assert.Equal(t, []controlapi.ReportSender{line("c", 1)}, f.kept("i1").Senders, "a start begins anew")

	many := make([]controlapi.ReportSender, maxSenders+10)
	for i := range many {
		many[i] = line(fmt.Sprint(i), 1)
	}
	send("i3", first, many...)
	assert.Len(t, f.kept("i3").Senders, maxSenders)
}

// Contract, section 4: receipts carry `lastAcceptedAt` and `firstRefusedAt`, also
// when the sender stands in another part than the first.
func TestReceiptFromParts(t *testing.T) {
	f := newFixture(t, "c1")
	_, err := f.record(reportAt("i1", controlapi.Version{Epoch: 1}))
	require.NoError(t, err)
	receipt := f.hold("c1")
	applied := receipt.CommittedAtMs + 100
	part := func(lines ...controlapi.ReportSender) {
		r := reportAt("i1", controlapi.Version{Epoch: 1, Number: receipt.Number})
		r.Policy.AppliedAtMs, r.Senders = applied, lines
		_, err := f.record(r)
		require.NoError(t, err)
	}
	c1 := controlapi.ReportSender{Name: "op-eu-export-c1", LastAcceptedAtMs: applied - 20}
	part(line("op-eu-export-c0", 1))
	part(c1)
	c1.FirstRefusedAtMs = applied + 30
	part(c1)
	c1.LastAcceptedAtMs, c1.FirstRefusedAtMs = applied+90, applied+80 // let in again meanwhile
	part(c1)
	got, err := f.Receipt(f.ctx, f.actor.OrgID, receipt.ReceiptID, 0)
	require.NoError(t, err)
	require.Len(t, got.Instances, 1)
	assert.Equal(t, applied, got.Instances[0].AppliedAtMs)
	assert.Equal(t, applied-20, got.Instances[0].LastAcceptedAtMs)
	assert.Equal(t, applied+30, got.Instances[0].FirstRefusedAtMs)
}

// A report without a time of application still confirms, as of now.
func TestReportWithoutAppliedAt(t *testing.T) {
	f := newFixture(t, "c1")
	_, err := f.record(reportAt("i1", controlapi.Version{Epoch: 1}))
	require.NoError(t, err)
	receipt := f.hold("c1")
	r := reportAt("i1", controlapi.Version{Epoch: 1, Number: receipt.Number})
	r.Policy.AppliedAt = time.Time{}
	f.clock.add(2 * time.Second)
	out, err := f.record(r)
	require.NoError(t, err)
	assert.Equal(t, []time.Duration{2 * time.Second}, out.Confirmed)
}
