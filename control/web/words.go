// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ikhnos/continuum/control/audit"
	"github.com/ikhnos/continuum/control/audit/trail"
	"github.com/ikhnos/continuum/control/liveness"
	"github.com/ikhnos/continuum/internal/controlapi"
)

// functions are what the templates say things with.
var functions = template.FuncMap{
	"look":        liveness.LookOf,
	"leafLook":    leafLook,
	"clusterLook": clusterLook,
	"ago":         func(t any, now time.Time) string { return ago(instant(t), now) },
	"until":       func(t any, now time.Time) string { return until(instant(t), now) },
	"stamp":       func(t any) string { return instant(t).UTC().Format("2006-01-02 15:04:05 UTC") },
	"iso":         func(t any) string { return instant(t).UTC().Format(time.RFC3339) },
	"labels":      labels,
	"health":      health,
	"refused":     refused,
	"sentence":    sentence,
	"counts":      counts,
	"signals":     signals,
	"row":         func(value any, now time.Time) row { return row{value, now} },
}

// row is one value with the time by which its ages are told.
type row struct {
	V   any
	Now time.Time
}

// instant is a time that a template has as a value or behind a pointer. Templates
// ask first whether there is one.
func instant(t any) time.Time {
	if p, ok := t.(*time.Time); ok {
		return *p
	}
	return t.(time.Time)
}

// ago says how long before now something was.
func ago(t, now time.Time) string {
	d := now.Sub(t)
	if d < time.Second {
		return "now"
	}
	return liveness.Length(d) + " ago"
}

// until says when something ends, before or after now.
func until(t, now time.Time) string {
	if t.Before(now) {
		return "ended " + ago(t, now)
	}
	return "in " + liveness.Length(t.Sub(now))
}

// health is what a collector says of its own components.
func health(s controlapi.HealthStatus) string {
	switch s {
	case controlapi.HealthOK:
		return "all components work"
	case controlapi.HealthRecoverableError:
		return "a component has failed for a minute"
	case controlapi.HealthPermanentError:
		return "a component has failed for good"
	default:
		return string(s)
	}
}

func labels(m map[string]string) string {
	words := make([]string, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		words = append(words, key+"="+m[key])
	}
	return strings.Join(words, ", ")
}

func refused(m map[string]int64) string {
	words := make([]string, 0, len(m))
	for _, reason := range slices.Sorted(maps.Keys(m)) {
		words = append(words, fmt.Sprintf("%s %d", reason, m[reason]))
	}
	return strings.Join(words, ", ")
}

// signals names those of which at least one request was accepted.
func signals(s liveness.SenderStatus) string {
	var words []string
	for _, signal := range []struct {
		name  string
		count int64
	}{{"metrics", s.Accepted.Metrics}, {"logs", s.Accepted.Logs}, {"traces", s.Accepted.Traces}} {
		if signal.count > 0 {
			words = append(words, signal.name)
		}
	}
	return strings.Join(words, ", ")
}

// counted is one state and how many are in it.
type counted struct {
	Look  liveness.Look
	Count int
}

// counts lists states by rank, those of nobody left out.
func counts(m map[string]int) []counted {
	states := slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		if d := liveness.Rank(a) - liveness.Rank(b); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	list := make([]counted, 0, len(states))
	for _, s := range states {
		list = append(list, counted{liveness.LookOf(s), m[s]})
	}
	return list
}

// verbs say what each event did to its object.
var verbs = map[string]string{
	audit.OrganisationCreated: "created the organisation", audit.AdminTokenCreated: "created the admin token",
	audit.AdminTokenRevoked: "revoked the admin token", audit.SessionStarted: "signed in with", audit.SessionEnded: "signed out of",
	audit.ClusterRegistered: "registered the cluster", audit.ClusterApproved: "approved the cluster", audit.ClusterUpdated: "changed the cluster",
	audit.ClusterRevoked: "revoked the cluster", audit.ClusterDeleted: "deleted the cluster",
	audit.OperatorCreated: "created the operator", audit.OperatorAddressChanged: "recorded an address of",
	audit.OperatorHeartbeatEnabled: "turned on the heartbeat of", audit.OperatorHeartbeatRotated: "rotated the heartbeat secret of",
	audit.OperatorInstallReissued: "printed the install again of", audit.OperatorRevoked: "revoked the operator", audit.OperatorDeleted: "deleted the operator",
	audit.SenderConnected: "connected", audit.SenderUpdated: "changed the address of", audit.SenderRevoked: "cut off", audit.SenderHeld: "put on hold",
	audit.SenderRestored: "let in again", audit.SenderRekeyed: "asked for a new key of", audit.SenderRekeyCompleted: "saw the new key of",
	audit.EnrollmentTokenCreated: "minted the enrolment token", audit.EnrollmentTokenRevoked: "revoked the enrolment token",
	audit.EnrollmentTokenReused:     "brought a spent enrolment token with another key:",
	audit.OperatorCertificateIssued: "enrolled at", audit.OperatorCertificateRenewed: "renewed at", audit.OperatorCertificateRevoked: "revoked the certificate",
	audit.OperatorCertificateAdopted: "adopted the certificate", audit.OperatorClientCertReissued: "enrolled again at",
	audit.ServerStarted: "started", audit.ServerStopped: "stopped", audit.PassphraseChanged: "changed the passphrase",
	audit.BackupCreated: "made a backup", audit.BackupRestored: "restored a backup", audit.EpochStarted: "started a new epoch",
	audit.LedgerPruned: "pruned the ledger", audit.DenialsRecovered: "brought back denials of",
}

// sentence tells an audit line in words, with its code where there are none yet.
func sentence(e trail.Record) string {
	verb, ok := verbs[e.Event]
	if !ok {
		verb = e.Event
	}
	text := strings.TrimSpace(e.Actor + " " + verb + " " + e.Object)
	for _, key := range []string{"reason", "note"} {
		if value, ok := e.Detail[key].(string); ok && value != "" {
			text += ", " + key + ": " + value
		}
	}
	return text + "."
}
