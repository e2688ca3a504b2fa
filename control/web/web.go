// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bytes"
	"embed"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"time"

	"github.com/ikhnos/continuum/control/ledger"
	"github.com/ikhnos/continuum/control/liveness"
	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/version"
)

// policyHeader allows what the page itself brings along and nothing else.
const policyHeader = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// Config is what the page works with. All fields but those marked are needed.
type Config struct {
	Store     *ledger.Store
	Operators *operators.Service
	Liveness  *liveness.Tracker
	Log       *slog.Logger
	// Caller returns the id of a request and its caller's address, for the audit
	// trail and for error pages.
	Caller func(*http.Request) (requestID, address string)
	// Failed counts a failed sign-in and returns how long its caller has to wait
	// when it was one too many; nil counts nothing.
	Failed func(*http.Request) time.Duration
}

//go:embed templates/*.html static/style.css
var files embed.FS

type site struct {
	Config
	pages  map[string]*template.Template
	origin *http.CrossOriginProtection
}

// Handler returns the page. It answers every path, with a page that says so when
// there is nothing under it.
func Handler(cfg Config) http.Handler {
	s := &site{Config: cfg, pages: parsePages(), origin: http.NewCrossOriginProtection()}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ui/style.css", style)
	mux.HandleFunc("GET /login", s.loginPage)
	mux.HandleFunc("POST /login", s.login)
	mux.HandleFunc("POST /logout", s.logout)
	mux.HandleFunc("GET /{$}", s.page("overview", s.overview))
	mux.HandleFunc("GET /operators", s.page("operators", s.operators))
	mux.HandleFunc("GET /operators/{id}", s.page("operator", s.operator))
	mux.HandleFunc("GET /clusters", s.page("clusters", s.clusters))
	mux.HandleFunc("GET /certificates", s.page("certificates", s.certificates))
	mux.HandleFunc("GET /audit", s.page("audit", s.audit))
	mux.HandleFunc("GET /", s.page("overview", func(*http.Request, operators.Actor) (content, error) {
		return content{}, controlapi.NewProblem(controlapi.ReasonNotFound, "There is no such page.")
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policyHeader)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if err := s.origin.Check(r); err != nil {
			s.fail(w, r, controlapi.NewProblem(controlapi.ReasonCrossSiteRefused, ""))
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// content is what one page shows in the frame. Worst is the word of the worst
// state on it, for the title; CLI the command that gives the same answer.
type content struct {
	Title string
	Worst string
	CLI   string
	Body  any
}

// frame is what every page has around its content.
type frame struct {
	content
	Page    string
	Actor   operators.Actor
	CSRF    string
	Now     time.Time
	Version string
}

// page answers with what read finds, for whoever is signed in.
func (s *site) page(name string, read func(*http.Request, operators.Actor) (content, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		session, actor, err := s.session(r)
		if isReason(err, controlapi.ReasonAdminUnauthenticated) {
			http.Redirect(w, r, "/login", http.StatusSeeOther)
			return
		}
		if err != nil {
			s.fail(w, r, err)
			return
		}
		c, err := read(r, actor)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		s.render(w, r, http.StatusOK, name, frame{
			content: c, Page: name, Actor: actor, CSRF: session.CSRF, Now: s.Store.Now(), Version: version.Version,
		})
	}
}

// fail answers with the page of what went wrong. What is no problem of ours is
// logged in full, and the page says only under which id.
func (s *site) fail(w http.ResponseWriter, r *http.Request, err error) {
	id, _ := s.Caller(r)
	var p *controlapi.Problem
	if !errors.As(err, &p) {
		s.Log.ErrorContext(r.Context(), "page failed", slog.String("request_id", id), slog.Any("error", err))
		p = controlapi.NewProblem(controlapi.ReasonInternal, "")
	}
	own := *p
	own.RequestID = id
	s.render(w, r, own.Status, "problem", frame{content: content{Title: own.Title, Body: &own}, Version: version.Version})
}

// render writes a page once it is complete, so that no half of one is sent.
func (s *site) render(w http.ResponseWriter, r *http.Request, status int, name string, f frame) {
	var page bytes.Buffer
	if err := s.pages[name].ExecuteTemplate(&page, "frame.html", f); err != nil {
		id, _ := s.Caller(r)
		s.Log.ErrorContext(r.Context(), "rendering a page failed",
			slog.String("request_id", id), slog.String("page", name), slog.Any("error", err))
		http.Error(w, "The page could not be made; request "+id+".", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = page.WriteTo(w)
}

func style(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "max-age=300")
	http.ServeFileFS(w, r, files, "static/style.css")
}

// parsePages parses each page together with the frame. The templates are part of
// the program: one that does not parse is found by every test.
func parsePages() map[string]*template.Template {
	frame := template.Must(template.New("frame.html").Funcs(functions).ParseFS(files, "templates/frame.html", "templates/leaves.html"))
	pages := map[string]*template.Template{}
	for _, name := range []string{"login", "overview", "operators", "operator", "clusters", "certificates", "audit", "problem"} {
		pages[name] = template.Must(template.Must(frame.Clone()).ParseFS(files, "templates/"+name+".html"))
	}
	return pages
}

func isReason(err error, reason controlapi.Reason) bool {
	var p *controlapi.Problem
	return errors.As(err, &p) && p.Reason == reason
}
