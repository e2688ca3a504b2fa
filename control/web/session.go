// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"crypto/subtle"
	"net/http"
	"strconv"
	"time"

	"github.com/ikhnos/continuum/control/operators"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/version"
)

// cookieName carries the prefix by which browsers see to it that the cookie is
// secure, for this host alone and for all its paths.
const cookieName = "__Host-ikhnos_session"

// maxFormBytes bounds the body of a form.
const maxFormBytes = 16 << 10

// Session returns who is signed in by a request of the web page: for the API,
// which takes a session in place of an admin token. A request that changes
// something and came from another site is cross_site_refused.
func Session(ops *operators.Service) func(*http.Request) (operators.Actor, error) {
	origin := http.NewCrossOriginProtection()
	return func(r *http.Request) (operators.Actor, error) {
		if err := origin.Check(r); err != nil {
			return operators.Actor{}, controlapi.NewProblem(controlapi.ReasonCrossSiteRefused, "")
		}
		_, actor, err := readSession(ops, r)
		return actor, err
	}
}

func (s *site) session(r *http.Request) (operators.Session, operators.Actor, error) {
	session, actor, err := readSession(s.Operators, r)
	actor.RequestID, actor.Address = s.Caller(r)
	return session, actor, err
}

func readSession(ops *operators.Service, r *http.Request) (operators.Session, operators.Actor, error) {
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return operators.Session{}, operators.Actor{}, controlapi.NewProblem(controlapi.ReasonAdminUnauthenticated, "")
	}
	return ops.Session(r.Context(), cookie.Value)
}

// loginBody is what the sign-in page shows above its field.
type loginBody struct{ Fault string }

func (s *site) loginPage(w http.ResponseWriter, r *http.Request) {
	if _, _, err := s.session(r); err == nil {
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	s.showLogin(w, r, http.StatusOK, "")
}

func (s *site) showLogin(w http.ResponseWriter, r *http.Request, status int, fault string) {
	s.render(w, r, status, "login", frame{content: content{Title: "Sign in", Body: loginBody{fault}}, Version: version.Version})
}

// login turns an admin token into a session. The token is in the body alone, so
// it stands in no log and no address bar.
func (s *site) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxFormBytes)
	if err := r.ParseForm(); err != nil {
		s.fail(w, r, controlapi.NewProblem(controlapi.ReasonRequestMalformed, ""))
		return
	}
	id, address := s.Caller(r)
	session, _, err := s.Operators.StartSession(r.Context(), r.PostForm.Get("token"), id, address)
	if isReason(err, controlapi.ReasonAdminUnauthenticated) {
		s.refuseLogin(w, r)
		return
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	setCookie(w, session.Secret, 0)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (s *site) refuseLogin(w http.ResponseWriter, r *http.Request) {
	if s.Failed != nil {
		if wait := s.Failed(r); wait > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
			s.showLogin(w, r, http.StatusTooManyRequests, "Too many failures from this address. Wait a minute.")
			return
		}
	}
	s.showLogin(w, r, http.StatusUnauthorized, "This token is not known or has ended.")
}

// logout ends the session whose CSRF token the form carries.
func (s *site) logout(w http.ResponseWriter, r *http.Request) {
	session, actor, err := s.session(r)
	if err == nil {
		r.Body = http.MaxBytesReader(w, r.Body, maxFormBytes)
		if subtle.ConstantTimeCompare([]byte(r.PostFormValue("csrf")), []byte(session.CSRF)) != 1 {
			s.fail(w, r, controlapi.NewProblem(controlapi.ReasonCrossSiteRefused, ""))
			return
		}
		err = s.Operators.EndSession(r.Context(), actor, session.Secret)
	}
	if err != nil && !isReason(err, controlapi.ReasonAdminUnauthenticated) {
		s.fail(w, r, err)
		return
	}
	setCookie(w, "", -1)
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

// setCookie sets a cookie that ends with the browser, or with maxAge -1 at once.
// How long a session lasts is the server's matter.
func setCookie(w http.ResponseWriter, value string, maxAge int) {
	http.SetCookie(w, &http.Cookie{
		Name: cookieName, Value: value, Path: "/", MaxAge: maxAge,
		Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
}
