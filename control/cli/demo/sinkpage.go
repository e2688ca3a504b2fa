// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	_ "embed"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/ikhnos/continuum/internal/identity"
)

//go:embed sinkpage.html
var sinkPageText string

var sinkPage = template.Must(template.New("sink").Funcs(template.FuncMap{
	"attributes": attributes,
}).Parse(sinkPageText))

// Page shows what the sink keeps: a sender's newest records of each signal with
// the identity stamped on them beside everything else that they carry. /?sender=ID
// chooses the sender.
func (s *Sink) Page() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		counts := s.Counts()
		senders := slices.Sorted(maps.Keys(counts))
		chosen := r.URL.Query().Get("sender")
		if chosen == "" && len(senders) > 0 {
			chosen = senders[0]
		}
		var records []Record
		for _, signal := range []string{SignalLogs, SignalTraces, SignalMetrics} {
			kept := s.Records(chosen, signal)
			slices.Reverse(kept)
			records = append(records, kept...)
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
		_ = sinkPage.Execute(w, map[string]any{ // fails only when the reader has gone
			"Senders": senders, "Counts": counts, "Chosen": chosen, "Records": records,
		})
	})
}

// attributes renders a record's attributes as key=value, those of identity apart.
func attributes(r Record, stamped bool) string {
	var parts []string
	add := func(place string, all map[string]any) {
		for _, key := range slices.Sorted(maps.Keys(all)) {
			if isIdentity(key) == stamped {
				parts = append(parts, place+key+"="+text(all[key]))
			}
		}
	}
	add("", r.Resource)
	if !stamped {
		add("scope: ", r.Scope)
		add("item: ", r.Item)
	}
	return strings.Join(parts, ", ")
}

func isIdentity(key string) bool {
	return slices.Contains([]string{
		identity.KeyOrgID, identity.KeyClusterID, identity.KeyOperatorID, identity.KeyOperatorName,
	}, key)
}
