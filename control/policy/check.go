// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/ikhnos/continuum/internal/controlapi"
)

const (
	// maxInstanceName bounds the name of an instance, in characters.
	maxInstanceName = 253
	// latest is the end of the times that a report may name, in Unix milliseconds:
	// with any clock offset they stay in the years that RFC 3339 can write.
	latest = 221_845_392_000_000 // the year 9000
	// farthest is how far the clock of an instance may be off, in milliseconds.
	farthest = 100 * 365 * 24 * int64(time.Hour/time.Millisecond)
)

// CheckReport tests the rules on a report's values. What an operator reports stands
// in lists beside what others did, so nothing in it may keep those from being read.
func CheckReport(r *controlapi.Report) error {
	var faults []controlapi.FieldError
	rule := func(field string, kept bool, detail string) {
		if !kept {
			faults = append(faults, controlapi.FieldError{Field: field, Detail: detail})
		}
	}
	const printed, counted, dated = "must be printable", "must be a whole number from 0", "must be a time up to the year 9000"
	n := utf8.RuneCountInString(r.Instance)
	rule("instance", n >= 1 && n <= maxInstanceName && printable(r.Instance), fmt.Sprintf("must be 1 to %d printable characters", maxInstanceName))
	rule("version", printable(r.Version), printed)
	rule("startedAt", inTime(r.StartedAt), dated)
	rule("receiverSerial", printable(r.ReceiverSerial), printed)
	rule("clockOffsetMs", r.ClockOffsetMs >= -farthest && r.ClockOffsetMs <= farthest, "must be within a hundred years")
	rule("policy.appliedAt", inTime(r.Policy.AppliedAt), dated)
	rule("policy.appliedAtMs", inMillis(r.Policy.AppliedAtMs), dated)
	rule("policy.number", r.Policy.Number >= 0 && r.Policy.Epoch >= 0, counted)
	for i := range r.Senders {
		s := &r.Senders[i]
		rule("senders.name", printable(s.Name), printed)
		rule("senders.serial", printable(s.Serial), printed)
		rule("senders.lastAcceptedAt", s.LastAcceptedAt == nil || inTime(*s.LastAcceptedAt), dated)
		rule("senders.lastAcceptedAtMs", inMillis(s.LastAcceptedAtMs), dated)
		rule("senders.firstRefusedAtMs", inMillis(s.FirstRefusedAtMs), dated)
		rule("senders.accepted", min(s.Accepted.Traces, s.Accepted.Metrics, s.Accepted.Logs) >= 0, counted)
		for reason, count := range s.Refused {
			rule("senders.refused", count >= 0 && printable(reason), counted)
		}
		if len(faults) > 0 {
			break // one sender tells what is wrong with all
		}
	}
	if r.Denied != nil {
		rule("denied.names", !slices.ContainsFunc(r.Denied.Names, unprintable), printed)
		rule("denied.serials", !slices.ContainsFunc(r.Denied.Serials, unprintable), printed)
	}
	if len(faults) > 0 {
		return controlapi.Invalid(faults...)
	}
	return nil
}

func printable(text string) bool {
	for _, r := range text {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}

func unprintable(text string) bool { return !printable(text) }

func inMillis(ms int64) bool { return ms >= 0 && ms <= latest }

// inTime also takes the zero time, which stands for none.
func inTime(t time.Time) bool { return t.IsZero() || inMillis(t.UnixMilli()) }
