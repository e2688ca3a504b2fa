// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"html/template"
	"log/slog"
	"net/http"
	"slices"

	"github.com/ikhnos/continuum/internal/controlapi"
)

// helpPath is where every problem's type points.
const helpPath = "/help/errors/"

var helpPage = template.Must(template.New("help").Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.Reason}} · Ikhnos</title>
</head>
<body>
<main>
<h1>{{.Meaning}}</h1>
<p>Reason <code>{{.Reason}}</code>.</p>
<h2>Who says so</h2>
<p>From {{.From}}.</p>
<h2>The sender's data</h2>
<p>It is {{.Data}}.</p>
<h2>What to do</h2>
<p>{{.Remedy}}</p>
<h2>Where it is counted</h2>
<p><code>{{.Counted}}</code></p>
</main>
</body>
</html>
`))

// help explains one reason of the closed list, in the words of `ikhnos explain`.
func (s *Server) help(w http.ResponseWriter, r *http.Request) {
	all := controlapi.Explanations()
	i := slices.IndexFunc(all, func(e controlapi.Explanation) bool { return e.Reason == r.PathValue("reason") })
	if i < 0 {
		s.refuse(w, r, controlapi.NewProblem(controlapi.ReasonNotFound, "No reason of the closed list has this name; ikhnos explain lists them."))
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'")
	if err := helpPage.Execute(w, all[i]); err != nil {
		s.log.DebugContext(r.Context(), "writing a help page failed", slog.Any("error", err))
	}
}
