// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import "time"

// backdate is how long before its issue a leaf becomes valid, for slow clocks.
const backdate = 10 * time.Minute

type dates struct{ notBefore, notAfter, renewAfter, renewBy time.Time }

// leafDates decides when a leaf of that lifetime ends and is renewed, in whole
// seconds; ok is false when its CA has ended. It renews after a third of its
// life; one that its CA cuts short, after half of what is left. random(n) draws
// from [0, n), once per leaf.
func leafDates(now time.Time, lifetime time.Duration, caEnd time.Time, random func(time.Duration) time.Duration) (dates, bool) {
	d := dates{notBefore: now.Add(-backdate), notAfter: now.Add(lifetime)}
	share := lifetime / 3
	if d.notAfter.After(caEnd) {
		d.notAfter = caEnd
		lifetime = caEnd.Sub(now)
		share = ((lifetime + time.Second) / 2).Truncate(time.Second)
	}
	if lifetime <= 0 {
		return dates{}, false
	}
	spread := max(lifetime/30, time.Second)
	d.renewAfter = earlier(now.Add((share + random(spread)).Truncate(time.Second)), d.notAfter)
	d.renewBy = earlier(d.renewAfter.Add((lifetime / 15).Truncate(time.Second)), d.notAfter)
	return d, true
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
