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
)

// statusText writes a status for a person: what needs one, each with the command
// that shows more, then the counts. Ages are told by the server's clock.
func statusText(status *liveness.Summary) func(w io.Writer) {
	return func(w io.Writer) {
		if rows := attentionRows(status); len(rows) > 0 {
			_, _ = fmt.Fprintf(w, "PROBLEMS (%d)\n", len(rows))
			writeTable(w, rows)
		} else {
			_, _ = fmt.Fprintln(w, "Nothing needs you.")
		}
		fields(w,
			"FLEET", countsText(status.Operators, "operator")+"      "+countsText(status.Clusters, "cluster"),
			"SENDERS", countsText(status.Senders, "sender"),
			"CERTS", certsText(status),
			"SERVER", serverText(status))
	}
}

func attentionRows(status *liveness.Summary) [][]string {
	rows := make([][]string, 0, len(status.Attention))
	for _, a := range status.Attention {
		look, object, why := liveness.LookOf(a.Kind), a.Object, a.Why
		if a.HolderID != "" {
			object = a.HolderID // its operator stands in the command
		}
		if a.Since != nil {
			why = "since " + since(*a.Since, status.At) + "; " + why
		}
		rows = append(rows, []string{"  " + look.Shape + " " + object + " " + strings.ToLower(look.Title), why, a.Command})
	}
	return rows
}

// certsText is what ends and renews next.
func certsText(status *liveness.Summary) string {
	parts := []string{"no renewal is due"}
	if next := status.NextRenewal; next != nil {
		parts[0] = fmt.Sprintf("next renewal %s (%s)", until(next.RenewAfter, status.At), next.Holder)
	}
	parts = append(parts, fmt.Sprintf("ends within 7 d: %d", status.EndingSoon))
	if end := status.NextCAEnd; end != nil {
		parts = append(parts, "CAs: next ends "+until(*end, status.At))
	}
	if end := status.Server.CertificateEnds; end != nil {
		parts = append(parts, "server: "+liveness.Length(end.Sub(status.At)))
	}
	return strings.Join(parts, "   ")
}

// serverText is the server's version and what it says of itself.
func serverText(status *liveness.Summary) string {
	server := status.Server
	parts := []string{server.Version, "keys not sealed", "never backed up"}
	if server.KeysSealed {
		parts[1] = "keys sealed"
	}
	if at := server.LastBackupAt; at != nil {
		parts[2] = "backup " + liveness.Length(status.At.Sub(*at)) + " old"
	}
	if n := server.PolicyOperators; n > 0 {
		parts = append(parts, fmt.Sprintf("policy confirmed by %d of %d", server.PolicyConfirmed, n))
	}
	return strings.Join(parts, ", ")
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
