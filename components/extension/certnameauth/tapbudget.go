// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package certnameauth

import (
	"sync/atomic"
	"time"
)

// A call that a tap refused stays in memory until its deadline. These bound how
// many may.
const (
	maxTapRefusals  = 10_000
	tapMemorySecond = 60
)

// tapBudget counts the refusals of the last minute in one bucket a second. It
// has no lock: at a turn of the second two calls may be counted too few.
type tapBudget struct {
	buckets [tapMemorySecond + 1]struct{ second, count atomic.Int64 }
}

// take counts one more refusal unless there are too many already.
func (b *tapBudget) take(now time.Time) bool {
	second := now.Unix()
	var total int64
	for i := range b.buckets {
		if second-b.buckets[i].second.Load() <= tapMemorySecond {
			total += b.buckets[i].count.Load()
		}
	}
	if total >= maxTapRefusals {
		return false
	}
	bucket := &b.buckets[second%int64(len(b.buckets))]
	if old := bucket.second.Load(); old != second && bucket.second.CompareAndSwap(old, second) {
		bucket.count.Store(0)
	}
	bucket.count.Add(1)
	return true
}
