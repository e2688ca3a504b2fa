// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"crypto/x509"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ikhnos/continuum/control/cli/apiclient"
	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/controlclient"
)

// fromServer gives an error of the client its exit code and its advice: which server
// was away or is not trusted, which token it refused, which id it does not know.
func fromServer(cmd *cobra.Command, err error) error {
	var away *apiclient.UnreachableError
	var call *apiclient.CallError
	var problem *controlapi.Problem
	var coded *exitError
	var told *explained
	switch {
	case err == nil || errors.As(err, &coded) || errors.As(err, &told):
		return err
	case errors.As(err, &away):
		return &exitError{exitUnreachable, serverAway(cmd, away)}
	case !errors.As(err, &problem):
		return err
	case problem.Reason == controlapi.ReasonAdminUnauthenticated:
		return &explained{
			what: "the server does not know this admin token, or it has ended", reason: problem.Reason,
			why: "it came from " + sourceOf(cmd, "token-file", "IKHNOS_TOKEN") + requestOf(problem),
			do: "ikhnos login, or --token-file with one that works; when every one is lost, " +
				"on the server's machine: ikhnos admin-token reset", err: err,
		}
	case problem.Reason == controlapi.ReasonNotFound && errors.As(err, &call):
		return notThere(call, problem)
	default:
		return err
	}
}

func serverAway(cmd *cobra.Command, away *apiclient.UnreachableError) *explained {
	server := "its address"
	if cfg, err := settings(cmd); err == nil {
		server = cfg.Server
	}
	told := &explained{
		what: "the control server did not answer",
		why:  server + ": " + away.Err.Error(),
		do: "check the address, which came from " + sourceOf(cmd, "server", "IKHNOS_SERVER") +
			", and the network; what collectors do is not affected",
		err: away,
	}
	if isTrust(away.Err) {
		told.what, told.do = "the control server's certificate is not trusted", trustAdvice(away.Err)
	}
	return told
}

// trustAdvice is what to do about a certificate that is not trusted.
func trustAdvice(err error) string {
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.Is(err, controlclient.ErrPinMismatch):
		return "compare the pin given here with the one that the server logged at its start; ikhnos login takes a new one; " +
			"when they are the same, another server answers there"
	case errors.As(err, &host):
		return "use an address that its certificate names, such as its --public-url"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "check the clock of this machine, and on the server's machine the certificate of --tls-cert"
	default:
		return "ikhnos login, or --ca-pin with the pin that the server logged at its start"
	}
}

// requestOf names a request, for who looks it up in the server's log.
func requestOf(p *controlapi.Problem) string {
	if p.RequestID == "" {
		return ""
	}
	return " (request " + p.RequestID + ")"
}

// nouns are the collections of the API that hold objects with an id, each with the
// command that lists them; OPERATOR stands for the one that they are of.
var nouns = map[string]struct{ noun, list string }{
	"clusters":          {"cluster", "ikhnos cluster list"},
	"operators":         {"operator", "ikhnos operator list"},
	"senders":           {"sender", "ikhnos sender list --operator OPERATOR"},
	"enrollment-tokens": {"enrolment token", "ikhnos token list --operator OPERATOR"},
	"certificates":      {"certificate", "ikhnos cert list --operator OPERATOR"},
	"receipts":          {"receipt", "ikhnos sender get shows the last one of a sender"},
	"admin-tokens":      {"admin token", "ikhnos admin-token list"},
}

// notThere names what a call meant that the server does not know: it tells nobody
// which of them.
func notThere(call *apiclient.CallError, problem *controlapi.Problem) error {
	path := strings.Split(strings.TrimPrefix(call.Path, "/api/v1/orgs/"), "/")
	for i, element := range path {
		path[i], _ = url.PathUnescape(element) // it was escaped by the client
	}
	var things, lists []string
	operator := ""
	for i := 1; i+1 < len(path); i += 2 {
		known, ok := nouns[path[i]]
		if !ok {
			break
		}
		switch {
		case path[i] == "operators":
			operator = path[i+1]
		case path[i] == "senders" && call.Method == http.MethodPut: // it is being connected
			known = nouns["clusters"]
		}
		things = append(things, known.noun+" "+path[i+1])
		lists = append(lists, strings.ReplaceAll(known.list, "OPERATOR", shellWord(operator)))
	}
	told := &explained{
		what:   "not found in organisation " + path[0] + ": " + strings.Join(things, ", or "),
		reason: problem.Reason,
		why:    "there is none of this id, or it was deleted" + requestOf(problem),
		do:     strings.Join(lists, "; "),
		err:    problem,
	}
	if len(things) == 0 {
		told.what = "not found: organisation " + path[0]
		told.why = "there is none of this id, or the admin token is not for it" + requestOf(problem)
		told.do = "check --org and IKHNOS_ORG"
	}
	return told
}
