// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/ikhnos/continuum/internal/controlapi"
)

// Exit codes of every command.
const (
	exitDone         = 0
	exitFailed       = 1
	exitUsage        = 2
	exitRefused      = 3  // by the server
	exitNotConfirmed = 4  // done, but not confirmed everywhere
	exitUnreachable  = 5  // the server
	exitFound        = 10 // a check found something
)

// exitError is an error that decides the exit code. With a nil err the command
// has said everything already and nothing more is printed.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usageError is the error of a command line that cannot be meant.
func usageError(format string, args ...any) error {
	return &exitError{code: exitUsage, err: fmt.Errorf(format, args...)}
}

// explained is an error for people: what happened, why, and what to do about it.
// Reason is empty where no reason of the closed list applies.
type explained struct {
	what   string
	reason controlapi.Reason
	why    string
	do     string
	err    error
}

func (e *explained) Error() string {
	if e.reason == "" {
		return e.what
	}
	return fmt.Sprintf("%s (reason: %s)", e.what, e.reason)
}

func (e *explained) Unwrap() error { return e.err }

// exitCode maps what a command returned to the code of the process.
func exitCode(err error) int {
	var coded *exitError
	var problem *controlapi.Problem
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &coded):
		return coded.code
	case errors.As(err, &problem):
		return exitRefused
	default:
		return exitFailed
	}
}

// printError writes err for people in three lines: what happened, why, and what to
// do. command is the one that failed.
func printError(w io.Writer, err error, command string) {
	if coded, ok := err.(*exitError); ok && coded.err == nil { //nolint:errorlint // only the outermost one
		return
	}
	what, why, do := lines(err, command)
	_, _ = fmt.Fprintf(w, "error: %s\n  why   %s\n  do    %s\n", plain(what), plain(why), plain(do))
}

func lines(err error, command string) (what, why, do string) {
	var told *explained
	var problem *controlapi.Problem
	switch {
	case errors.As(err, &told):
		what, why, do = told.Error(), told.why, told.do
	case errors.As(err, &problem):
		what, why, do = problem.Error(), problemWhy(problem), problemRemedy(problem)
	case errors.Is(err, context.Canceled):
		return "interrupted", "the command was stopped before its end", "run it again; what it did before stays done"
	case exitCode(err) == exitUsage:
		return err.Error(), "the command line does not say what is meant, so nothing was done", command + " --help"
	default:
		what, why, _ = strings.Cut(err.Error(), ": ")
	}
	return what, firstOf(why, "nothing more is known"), firstOf(do, "correct that and run it again; "+command+" --help says more")
}

// problemWhy says what the server found: the fields at fault, the dependents, or
// the fixed sentence of the reason.
func problemWhy(p *controlapi.Problem) string {
	request := ""
	if p.RequestID != "" {
		request = "(request " + p.RequestID + ")"
	}
	switch {
	case len(p.Errors) > 0:
		parts := make([]string, len(p.Errors))
		for i, field := range p.Errors {
			parts[i] = field.Field + ": " + field.Detail
		}
		return strings.Join(parts, "; ")
	case p.Dependents != nil:
		return dependentsText(p.Dependents)
	case p.Detail == p.Title:
		return strings.TrimSpace("refused by the server " + request)
	default:
		return strings.TrimSpace(p.Title + " " + request)
	}
}

// problemRemedy is the server's advice, in the words of the command line where
// the server speaks of its API.
func problemRemedy(p *controlapi.Problem) string {
	switch p.Reason {
	case controlapi.ReasonInUse:
		return "move or revoke the dependents first, or repeat with --force"
	case controlapi.ReasonAdminUnauthenticated:
		return "ikhnos login, or --token-file with an admin token that has not ended"
	case controlapi.ReasonValidationFailed:
		return "correct what is named above"
	default:
		return p.Remedy
	}
}

func dependentsText(d *controlapi.Dependents) string {
	text := fmt.Sprintf("%s still send to it", count(d.Clusters, "cluster"))
	if len(d.Operators) > 0 {
		text += "; operators: " + strings.Join(d.Operators, ", ")
	}
	return text
}

// plain keeps text of another machine from steering the terminal: one line, no
// control or format characters.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Cf, r):
			return -1
		default:
			return r
		}
	}, s)
}

// count is a number with its noun, "1 leaf" beside "2 clusters".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if stem, ok := strings.CutSuffix(noun, "leaf"); ok {
		return fmt.Sprintf("%d %sleaves", n, stem)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
