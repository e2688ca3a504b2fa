// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/internal/renewal"
)

// trap-6, case-16: 10,000 senders are created in one second. Their renewals, by the
// instants that the server draws and the looks that holders take at the clock, are
// spread over a thirtieth of a life, a day for leaves of 30 days. For twelve rounds the
// fullest minute has at most three times the mean of that, and renewals do not drift
// together again.
func TestFleetCreatedInOneSecond(t *testing.T) {
	for name, life := range map[string]time.Duration{"30 days": 30 * 24 * time.Hour, "7 days": 7 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			const senders = 10_000
			random := rand.New(rand.NewPCG(4, 2))
			draw := func(n time.Duration) time.Duration { return time.Duration(random.Int64N(int64(n))) }
			start := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
			issued := make([]time.Time, senders)
			for i := range issued {
				issued[i] = start.Add(draw(time.Second)).Truncate(time.Second)
			}
			mean := senders / (life / 30).Minutes()
			var peaks []int
			for round := range 12 {
				perMinute := map[int64]int{}
				for i := range issued {
					d, ok := leafDates(issued[i], life, start.AddDate(5, 0, 0), draw)
					require.True(t, ok)
					issued[i] = renewedAt(d, issued[i], draw)
					require.False(t, issued[i].After(d.renewBy))
					perMinute[issued[i].Unix()/60]++
				}
				peak := 0
				for _, n := range perMinute {
					peak = max(peak, n)
				}
				require.LessOrEqual(t, float64(peak), 3*mean, "round %d", round)
				peaks = append(peaks, peak)
			}
			t.Logf("mean %.1f a minute, fullest minute of each round %d", mean, peaks)
		})
	}
}

// renewedAt is when a holder that runs renews: it sleeps until the instant, or the
// nap that comes next is over.
func renewedAt(d dates, issued time.Time, draw func(time.Duration) time.Duration) time.Time {
	window := renewal.NewWindow(d.notBefore, d.notAfter, d.renewAfter, d.renewBy, 0.5)
	due := renewal.DueAfterIssue(window, issued, issued)
	nap := renewal.Nap(renewal.Life(d.notBefore, d.notAfter))
	look := issued.Add(draw(nap)) // the first look after the pair was taken up
	for {
		wait := due.In(look)
		if wait <= 0 {
			return look
		}
		if wait > nap { // looks in between change nothing
			look = look.Add(wait.Truncate(nap))
			continue
		}
		look = look.Add(max(wait, time.Second)) // as Holder.Keep sleeps
	}
}
