// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/ikhnos/continuum/control/liveness"
	"github.com/ikhnos/continuum/control/operators"
)

const pendingClusters = string(operators.ClusterPending)

// attentionWords are the shape and the words of each kind of attention.
var attentionWords = map[string]struct{ shape, word string }{
	liveness.AttentionUnconfirmed: {"✕", "not confirmed"},
	liveness.AttentionRecovering:  {"◷", "recovering"},
	liveness.AttentionLost:        {"⬣", "lost in the restore"},
	liveness.AttentionOperator:    {"▲", "offline"},
	liveness.AttentionSilent:      {"▲", "silent"},
	liveness.AttentionExpired:     {"⊗", "expired"},
	liveness.AttentionRenewal:     {"◷", "renewal failing"},
	liveness.AttentionRefused:     {"⬣", "refused"},
}

// statusText writes a status for a person: what needs one, each with the command
// that shows more, then the counts.
func statusText(status *fleetStatus, now time.Time) func(w io.Writer) {
	return func(w io.Writer) {
		if rows := attentionRows(status, now); len(rows) > 0 {
			_, _ = fmt.Fprintf(w, "PROBLEMS (%d)\n", len(rows))
			writeTable(w, rows)
		} else {
			_, _ = fmt.Fprintln(w, "Nothing needs you.")
		}
		renewal := "no renewal is due"
		if next := status.NextRenewal; next != nil {
			renewal = fmt.Sprintf("next renewal %s (%s)", until(next.RenewAfter, now), next.Holder)
		}
		fields(w,
			"FLEET", countsText(status.Operators, "operator")+"      "+countsText(status.Clusters, "cluster"),
			"SENDERS", countsText(status.Senders, "sender"),
			"CERTS", fmt.Sprintf("%s   ends within 7 d: %d", renewal, status.EndingSoon),
			"SERVER", status.Server)
	}
}

func attentionRows(status *fleetStatus, now time.Time) [][]string {
	rows := make([][]string, 0, len(status.Attention))
	for _, a := range status.Attention {
		words, ok := attentionWords[a.Kind]
		if !ok {
			words.shape, words.word = "·", strings.ReplaceAll(a.Kind, "_", " ")
		}
		why := a.Why
		if a.Since != nil {
			why = "since " + since(*a.Since, now) + ": " + why
		}
		rows = append(rows, []string{"  " + words.shape + " " + a.Object + " " + words.word, why, a.Command})
	}
	for i := range status.Receivers {
		e := &status.Receivers[i]
		rows = append(rows, []string{"  ◷ " + e.Holder + " renewal failing", "its receiver's certificate ends " + until(e.NotAfter, now),
			"ikhnos cert list --holder " + e.Holder})
	}
	if n := status.Clusters[pendingClusters]; n > 0 {
		rows = append(rows, []string{"  ◌ " + count(n, "cluster") + " not approved", "registered, and waiting for a person", "ikhnos cluster list"})
	}
	return rows
}

// since is the clock for the last day and the date for earlier ones.
func since(t, now time.Time) string {
	if now.Sub(t) < 24*time.Hour {
		return t.UTC().Format("15:04")
	}
	return t.UTC().Format(time.DateOnly)
}

// countsText is "12 operators: 11 online, 1 offline", the most frequent state
// first.
func countsText(counts map[string]int, noun string) string {
	total := 0
	states := make([]string, 0, len(counts))
	for state, n := range counts {
		total += n
		states = append(states, state)
	}
	if total == 0 {
		return count(0, noun)
	}
	slices.SortFunc(states, func(a, b string) int {
		if counts[a] != counts[b] {
			return counts[b] - counts[a]
		}
		return strings.Compare(a, b)
	})
	for i, state := range states {
		states[i] = fmt.Sprintf("%d %s", counts[state], strings.ReplaceAll(state, "_", " "))
	}
	return count(total, noun) + ": " + strings.Join(states, ", ")
}
