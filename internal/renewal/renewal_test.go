// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package renewal

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const day = 24 * time.Hour

var issue = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// RN-1: without the server's word a leaf is renewed after a third of its life,
// spread over a thirtieth; by within a fifteenth.
func TestNewWindowFallback(t *testing.T) {
	for name, tc := range map[string]struct {
		life     time.Duration
		min, max time.Duration // of After, from issue
	}{
		"30 days":  {30 * day, 10 * day, 11 * day},
		"365 days": {360 * day, 120 * day, 132 * day}, // PK-15
		"1 hour":   {time.Hour, 20 * time.Minute, 22 * time.Minute},
		"60 s":     {time.Minute, 20 * time.Second, 22 * time.Second}, // trap-1
	} {
		t.Run(name, func(t *testing.T) {
			notBefore, notAfter := issue.Add(-backdate), issue.Add(tc.life)
			require.Equal(t, issue, Issued(notBefore, notAfter))
			require.Equal(t, tc.life, Life(notBefore, notAfter))
			for _, random := range []float64{0, 0.5, 0.999999} {
				w := NewWindow(notBefore, notAfter, time.Time{}, time.Time{}, random)
				require.GreaterOrEqual(t, w.After.Sub(issue), tc.min)
				require.LessOrEqual(t, w.After.Sub(issue), tc.max)
				require.Equal(t, tc.life/15, w.By.Sub(w.After))
				require.True(t, w.By.Before(notAfter))
			}
		})
	}
}

func TestNewWindowOfTheServer(t *testing.T) {
	notBefore, notAfter := issue.Add(-backdate), issue.Add(30*day)
	after, by := issue.Add(10*day+time.Hour), issue.Add(12*day)
	third := issue.Add(10 * day)
	for name, tc := range map[string]struct {
		after, by time.Time
		want      Window
	}{
		"as drawn":           {after, by, Window{after, by}},
		"without by":         {after, time.Time{}, Window{after, after.Add(2 * day)}},
		"by before after":    {after, issue, Window{after, after.Add(2 * day)}},
		"after the end":      {notAfter, notAfter.Add(day), Window{third, third.Add(2 * day)}},
		"before the leaf":    {notBefore.Add(-1), by, Window{third, third.Add(2 * day)}},
		"missing altogether": {time.Time{}, time.Time{}, Window{third, third.Add(2 * day)}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, NewWindow(notBefore, notAfter, tc.after, tc.by, 0))
		})
	}
}

func TestForeignLeafShorterThanTheBackdate(t *testing.T) {
	require.Equal(t, time.Minute, Life(issue, issue.Add(time.Minute)))
}

// case-16, trap-6: equal leaves do not renew together.
func TestWindowsSpread(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	perHour := map[int]int{}
	for range 10_000 {
		w := NewWindow(issue.Add(-backdate), issue.Add(30*day), time.Time{}, time.Time{}, random.Float64())
		perHour[int(w.After.Sub(issue)/time.Hour)]++
	}
	require.Len(t, perHour, 24)
	for hour, n := range perHour {
		require.Less(t, n, 3*10_000/24, "hour %d", hour)
	}
}

// trap-7, trap-8: clocks that jump or stop.
func TestDue(t *testing.T) {
	w := Window{After: issue.Add(10 * day), By: issue.Add(12 * day)}
	require.Equal(t, 10*day, DueAfterLoad(w, issue).In(issue))
	require.LessOrEqual(t, DueAfterLoad(w, issue.Add(11*day)).In(issue.Add(11*day)), time.Duration(0))

	// A leaf that comes while our clock is 25 days ahead waits its ten days.
	ahead := issue.Add(25 * day)
	require.Equal(t, 10*day, DueAfterIssue(w, issue, ahead).In(ahead))
	require.Equal(t, 10*day, DueAfterIssue(w, issue, issue).In(issue))

	// With the monotonic clock of a real time: setting the wall clock back does
	// not delay, setting it forward (or sleeping) is seen.
	now := time.Now()
	soon := DueAfterLoad(Window{After: now.Add(time.Hour)}, now)
	wallBack := now.Round(0).Add(-day)
	require.LessOrEqual(t, Due{wall: soon.wall, monotonic: soon.monotonic.Round(0)}.In(wallBack), 25*time.Hour)
	require.LessOrEqual(t, soon.In(now.Round(0).Add(2*time.Hour)), time.Duration(0))
	require.LessOrEqual(t, Due{wall: soon.wall.Add(day), monotonic: soon.monotonic}.In(now.Add(time.Hour)), time.Duration(0))
}

func TestBackoff(t *testing.T) {
	for name, tc := range map[string]struct {
		failures int
		life     time.Duration
		min, max time.Duration
	}{
		"first":               {1, 30 * day, time.Second, 30 * time.Second},
		"none yet":            {0, 30 * day, time.Second, 30 * time.Second},
		"second":              {2, 30 * day, time.Second, time.Minute},
		"seventh":             {7, 30 * day, time.Second, 32 * time.Minute},
		"eighth":              {8, 30 * day, time.Second, time.Hour},
		"ten thousandth":      {10_000, 30 * day, time.Second, time.Hour},
		"a year's leaf":       {20, 365 * day, time.Second, time.Hour},
		"a day's leaf":        {20, day, time.Second, 2 * time.Minute},
		"a minute's leaf":     {20, time.Minute, time.Second, time.Second},
		"a leaf without life": {3, 0, time.Second, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.min, Backoff(tc.failures, tc.life, 0))
			require.InDelta(t, tc.max, Backoff(tc.failures, tc.life, 1), float64(time.Second))
			require.LessOrEqual(t, Backoff(tc.failures, tc.life, 0.5), tc.max)
		})
	}
}

func TestNap(t *testing.T) {
	require.Equal(t, time.Minute, Nap(30*day))
	require.Equal(t, 6*time.Second, Nap(time.Minute))
	require.Equal(t, time.Second, Nap(0))
}
