// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"html/template"
	"log/slog"
	"net/http"

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
<h1>{{.Info.Title}}</h1>
<p>Reason <code>{{.Reason}}</code>, HTTP status {{.Info.Status}}.</p>
<h2>What to do</h2>
<p>{{.Info.Remedy}}</p>
<h2>Does trying again help?</h2>
<p>{{if .Info.Retryable}}Yes: the same request may succeed later.{{else}}No: the same request is refused again until its cause is removed.{{end}}</p>
<h2>Where it is counted</h2>
<p>In the metric <code>ikhnos_refusals_total{reason="{{.Reason}}"}</code>, and in the server's log under the request's id.</p>
</main>
</body>
</html>
`))

// help explains one reason of the closed list.
func (s *Server) help(w http.ResponseWriter, r *http.Request) {
	reason := controlapi.Reason(r.PathValue("reason"))
	info, ok := controlapi.Reasons()[reason]
	if !ok {
		s.refuse(w, r, notFound())
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'")
	err := helpPage.Execute(w, struct {
		Reason controlapi.Reason
		Info   controlapi.ReasonInfo
	}{reason, info})
	if err != nil {
		s.log.DebugContext(r.Context(), "writing a help page failed", slog.Any("error", err))
	}
}
