// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package controlapi

import (
	"fmt"
	"slices"
	"strings"
)

// Explanation is what people are told of a reason, by the page
// /help/errors/<reason> and by `ikhnos explain`: what it means, who answers it,
// what becomes of the sender's data, what to do, and where it is counted.
type Explanation struct {
	Reason  string `json:"reason"`
	Meaning string `json:"meaning"`
	From    string `json:"from"`
	Data    string `json:"data"`
	Remedy  string `json:"remedy"`
	Counted string `json:"counted"`
}

// Explanations lists every reason of contract section 9 once, sorted by its word:
// the control server's, the data plane's, and those of a collector's status. A
// reason that the control server and an operator share stands with what the
// operator does, because that is where data is at stake.
func Explanations() []Explanation {
	all := make([]Explanation, 0, len(dataPlaneReasons)+len(reasons))
	for _, t := range dataPlaneReasons {
		all = append(all, Explanation{t.reason, t.meaning, t.from, t.data, t.remedy, t.counted()})
	}
	for reason, info := range reasons {
		e := explain(reason, info)
		i := slices.IndexFunc(all, func(other Explanation) bool { return other.Reason == e.Reason })
		if i < 0 {
			all = append(all, e)
			continue
		}
		all[i].From += fmt.Sprintf("; and the control server, status %d", info.Status)
		all[i].Counted += "; " + e.Counted
	}
	slices.SortFunc(all, func(a, b Explanation) int { return strings.Compare(a.Reason, b.Reason) })
	return all
}

// explain is what is told of a reason of the control server.
func explain(reason Reason, info ReasonInfo) Explanation {
	again := "asking again does not help"
	if info.Retryable {
		again = "asking again may help"
	}
	return Explanation{
		Reason:  string(reason),
		Meaning: info.Title,
		From:    fmt.Sprintf("the control server, status %d; %s", info.Status, again),
		Data:    "not touched: the control server never sees telemetry",
		Remedy:  info.Remedy,
		Counted: fmt.Sprintf("ikhnos_refusals_total{reason=%q}", reason),
	}
}

// counted names the metric of a refusal of the data plane.
func (t *told) counted() string {
	switch {
	case t.from == fromStatus:
		return "not under this word: see " + fromStatus
	case slices.Contains(identityReasons, t.reason):
		return fmt.Sprintf("otelcol_processor_continuumidentity_refused_items{reason=%q}", t.reason)
	default:
		return fmt.Sprintf("otelcol_extension_certnameauth_requests{outcome=%q}", t.reason)
	}
}
