// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestLeafDates(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	for _, test := range []struct {
		name             string
		life, caLeft     time.Duration
		ends             time.Duration
		earliest, latest time.Duration // of renewAfter
		grace            time.Duration // from renewAfter to renewBy
	}{
		{"thirty days", 30 * day, 1000 * day, 30 * day, 10 * day, 11*day - time.Second, 2 * day},
		{"a day", day, 1000 * day, day, 8 * time.Hour, 8*time.Hour + 48*time.Minute - time.Second, 96 * time.Minute},
		{"a minute", time.Minute, 1000 * day, time.Minute, 20 * time.Second, 21 * time.Second, 4 * time.Second},
		{"uneven", 100 * time.Second, 1000 * day, 100 * time.Second, 33 * time.Second, 36 * time.Second, 6 * time.Second},
		{"ends with its CA", 30 * day, 30 * day, 30 * day, 10 * day, 11*day - time.Second, 2 * day},
		{"cut by its CA", 30 * day, 20 * day, 20 * day, 10 * day, 10*day + 16*time.Hour - time.Second, 32 * time.Hour},
		{"three seconds left", 30 * day, 3 * time.Second, 3 * time.Second, 2 * time.Second, 2 * time.Second, 0},
		{"one second left", 30 * day, time.Second, time.Second, time.Second, time.Second, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			for draw, want := range map[string]time.Duration{"first": test.earliest, "last": test.latest} {
				random := func(n time.Duration) time.Duration {
					if draw == "first" {
						return 0
					}
					return n - 1
				}
				d, ok := leafDates(now, test.life, now.Add(test.caLeft), random)
				assert.True(t, ok)
				assert.Equal(t, now.Add(-10*time.Minute), d.notBefore)
				assert.Equal(t, now.Add(test.ends), d.notAfter)
				assert.Equal(t, now.Add(want), d.renewAfter, draw)
				assert.Equal(t, d.renewAfter.Add(test.grace), d.renewBy)
				assert.True(t, d.renewAfter.After(now), "not born inside its window")
			}
		})
	}
	for _, left := range []time.Duration{0, -time.Hour} {
		_, ok := leafDates(now, 30*day, now.Add(left), nil)
		assert.False(t, ok, "the CA has ended")
	}
}

// Serials have 159 random bits, an even number of digits and no leading zero byte.
func TestNewSerial(t *testing.T) {
	seen := map[string]bool{}
	for range 5000 {
		s := newSerial()
		assert.Zero(t, len(s)%2)
		assert.LessOrEqual(t, len(s), 40)
		assert.NotEqual(t, "00", s[:2])
		assert.False(t, seen[s])
		seen[s] = true
	}
}
