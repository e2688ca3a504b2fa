// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package renewal

import "time"

// Proportions of contract sections 3 and 11. All follow from the life of a leaf,
// which starts at its issue: not-before is ten minutes earlier.
const (
	backdate     = 10 * time.Minute
	standardLife = 30 * 24 * time.Hour

	firstRetry = 30 * time.Second
	lastRetry  = time.Hour
	leastRetry = time.Second

	longestNap = time.Minute
)

// Window is the time in which a leaf should get its successor: from After, drawn
// once per leaf, to By, from when on renewal counts as failing.
type Window struct{ After, By time.Time }

// Issued is when a leaf with these dates was issued.
func Issued(notBefore, notAfter time.Time) time.Time {
	if issued := notBefore.Add(backdate); issued.Before(notAfter) {
		return issued
	}
	return notBefore // of a foreign leaf, shorter than our backdate
}

// Life is how long a leaf with these dates lives from its issue.
func Life(notBefore, notAfter time.Time) time.Duration {
	return notAfter.Sub(Issued(notBefore, notAfter))
}

// NewWindow is the window that the server drew, or, when after or by is zero or
// no part of the leaf's life, the one that it would have drawn: a third of the
// life, spread over a thirtieth by random in [0,1), and a fifteenth long.
func NewWindow(notBefore, notAfter, after, by time.Time, random float64) Window {
	issued, life := Issued(notBefore, notAfter), Life(notBefore, notAfter)
	if after.Before(notBefore) || !after.Before(notAfter) {
		after = issued.Add(life/3 + time.Duration(random*float64(life/30)))
		by = time.Time{}
	}
	if by.Before(after) || by.After(notAfter) {
		by = after.Add(life / 15)
	}
	return Window{After: after, By: by}
}

// Due says from when on to renew.
type Due struct{ wall, monotonic time.Time }

// DueAfterLoad is for a leaf found on disk: due at w.After by the clock on the
// wall, so that a machine that slept renews when it wakes, or after the same time
// by the monotonic clock, so that setting the clock back delays nothing.
func DueAfterLoad(w Window, now time.Time) Due {
	return Due{wall: w.After.Round(0), monotonic: now.Add(w.After.Sub(now))}
}

// DueAfterIssue is for a leaf that just came. One that is due already shows that
// our clock is wrong; it then waits its time by the monotonic clock alone, or a
// wrong clock would renew without end.
func DueAfterIssue(w Window, issued, now time.Time) Due {
	if now.Before(w.After) {
		return DueAfterLoad(w, now)
	}
	return Due{monotonic: now.Add(w.After.Sub(issued))}
}

// In is how long it is until then; zero or less means now.
func (d Due) In(now time.Time) time.Duration {
	left := d.monotonic.Sub(now)
	if !d.wall.IsZero() {
		left = min(left, d.wall.Sub(now.Round(0)))
	}
	return left
}

// Backoff is how long to wait after the failures-th failure in a row (from 1):
// full jitter below a ceiling that doubles from 30 s to 1 h, scaled down with a
// life under 30 days, and at least 1 s. random is in [0,1).
func Backoff(failures int, life time.Duration, random float64) time.Duration {
	ceiling := lastRetry
	if failures < 8 { // 30 s doubled seven times is above an hour
		ceiling = min(ceiling, firstRetry<<max(failures-1, 0))
	}
	scale := min(1, float64(life)/float64(standardLife))
	return max(leastRetry, time.Duration(random*scale*float64(ceiling)))
}

// Nap is how long to sleep at most before the clock is looked at again: a
// minute, or a tenth of a short life, because a timer does not run while a
// machine sleeps.
func Nap(life time.Duration) time.Duration {
	return max(leastRetry, min(longestNap, life/10))
}
