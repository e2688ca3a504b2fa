// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/internal/controlapi"
)

func TestUsageErrors(t *testing.T) {
	tests := map[string]struct {
		args []string
		want string
	}{
		"unknown command":         {[]string{"sendr", "list"}, `error: unknown command "sendr" for "ikhnos"; did you mean ikhnos sender?`},
		"unknown verb":            {[]string{"cluster", "lst"}, `error: unknown command "lst" for "ikhnos cluster"; did you mean ikhnos cluster list?`},
		"nothing near":            {[]string{"xyzzy"}, `error: unknown command "xyzzy" for "ikhnos"`},
		"unknown flag":            {[]string{"cluster", "add", "c1", "--lable", "a=b"}, `error: unknown flag --lable for "ikhnos cluster add"; did you mean --label?`},
		"unknown global flag":     {[]string{"org", "list", "--servr", "x"}, `error: unknown flag --servr for "ikhnos org list"; did you mean --server?`},
		"missing argument":        {[]string{"operator", "address", "op-eu"}, "error: ikhnos operator address needs HOST[:PORT]"},
		"too many arguments":      {[]string{"org", "list", "x"}, `error: ikhnos org list does not take "x"`},
		"missing flag":            {[]string{"sender", "revoke", "c7"}, `error: required flag(s) "operator" not set`},
		"bad output":              {[]string{"org", "list", "-o", "xml"}, `error: invalid argument "xml" for "-o, --output" flag: must be one of table, json, yaml`},
		"bad reason":              {[]string{"sender", "revoke", "c7", "--operator", "op-eu", "--reason", "x"}, `error: invalid argument "x" for "--reason" flag: must be one of compromised, retired, hold`},
		"bad duration":            {[]string{"org", "list", "--timeout", "x"}, `error: invalid argument "x" for "--timeout" flag: time: invalid duration "x"`},
		"unknown reason":          {[]string{"explain", "clock_skw"}, `error: there is no reason "clock_skw"; did you mean clock_skew?`},
		"unknown context":         {[]string{"--context", "x", "org", "list"}, `error: there is no context "x"; see ikhnos context list`},
		"http instead of https":   {[]string{"org", "list", "--server", "http://127.0.0.1:1"}, "error: this is no address of a control server: --server"},
		"label without value":     {[]string{"cluster", "add", "c1", "--label", "a"}, `error: --label takes NAME=VALUE, not "a"`},
		"label twice":             {[]string{"cluster", "add", "c1", "--label", "a=1", "--label", "a=2"}, "error: --label a is given twice"},
		"tenant":                  {[]string{"cluster", "add", "c1", "--tenant", "5"}, `error: --tenant takes ACCOUNT:PROJECT, two numbers, not "5"`},
		"role without its sender": {[]string{"token", "create", "--operator", "op-eu", "--role", "sender"}, "error: --role sender goes with --sender ID, --role receiver without"},
		"confirmed another id":    {[]string{"operator", "revoke", "op-eu", "--confirm", "op-us"}, "error: --confirm op-us is not op-eu: nothing was done"},
		"bad pin":                 {[]string{"org", "list", "--ca-pin", "sha256:00"}, "error: this is no CA pin: --ca-pin"},
		"bad time":                {[]string{"cert", "list", "--ends-before", "soon"}, "error: --ends-before takes a duration such as 7d or 12h, or an RFC 3339 time"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, newFakeServer(t, nil))
			got := m.run(test.args...)
			assert.Equal(t, exitUsage, got.code)
			assert.Empty(t, got.stdout)
			line, rest, _ := strings.Cut(got.stderr, "\n")
			assert.Contains(t, line, test.want)
			assert.Regexp(t, `^  why   .+\n  do    .+\n$`, rest)
		})
	}
}

func TestErrorsSayWhatWhyAndWhatToDo(t *testing.T) {
	refusal := controlapi.NewProblem(controlapi.ReasonInUse, "op-central has senders.")
	refusal.Dependents = &controlapi.Dependents{Operators: []string{"op-eu", "op-us"}, Clusters: 2}
	invalid := controlapi.NewProblem(controlapi.ReasonValidationFailed, "")
	invalid.Errors = []controlapi.FieldError{{Field: "id", Detail: "must be a DNS label"}, {Field: "name", Detail: "is needed"}}
	hostile := controlapi.NewProblem(controlapi.ReasonForbidden, "no\x1b[2J\nerror: \u202eyes")
	internal := controlapi.NewProblem(controlapi.ReasonInternal, "")
	internal.RequestID = "abc"
	tests := map[string]struct {
		answer any
		code   int
		want   string
	}{
		"dependents": {refusal, exitRefused, "error: op-central has senders. (reason: in_use)\n" +
			"  why   2 clusters still send to it; operators: op-eu, op-us\n" +
			"  do    move or revoke the dependents first, or repeat with --force\n"},
		"fields": {invalid, exitRefused, "error: A value breaks a rule (reason: validation_failed)\n" +
			"  why   id: must be a DNS label; name: is needed\n" +
			"  do    correct what is named above\n"},
		"request id": {internal, exitRefused, "error: The server made a mistake (reason: internal)\n" +
			"  why   refused by the server (request abc)\n" +
			"  do    Try again; report the requestId if it lasts.\n"},
		"control characters do not reach the terminal": {hostile, exitRefused, "error: no[2J error: yes (reason: forbidden)\n" +
			"  why   The token's role does not allow this\n" +
			"  do    Use a token with a higher role.\n"},
		"not a control server": {func(w http.ResponseWriter) { http.Error(w, "<html>", http.StatusBadGateway) }, exitUnreachable,
			"error: the control server did not answer\n" +
				"  why   SERVER: status 502 without a reason: not an answer of a control server\n" +
				"  do    check the address, which came from IKHNOS_SERVER, and the network; what collectors do is not affected\n"},
		"not JSON": {func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"items":[]} {}`)) }, exitUnreachable,
			"error: the control server did not answer\n" +
				"  why   SERVER: reading the answer: invalid character '{' after top-level value\n" +
				"  do    check the address, which came from IKHNOS_SERVER, and the network; what collectors do is not affected\n"},
		"redirect": {func(w http.ResponseWriter) { w.Header().Set("Location", "/x"); w.WriteHeader(http.StatusFound) }, exitUnreachable,
			"error: the control server did not answer\n" +
				"  why   SERVER: status 302 without a reason: not an answer of a control server\n" +
				"  do    check the address, which came from IKHNOS_SERVER, and the network; what collectors do is not affected\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, newFakeServer(t, map[string]any{"GET /api/v1/orgs": test.answer}))
			got := m.run("org", "list")
			assert.Equal(t, test.code, got.code)
			assert.Empty(t, got.stdout)
			assert.Equal(t, strings.ReplaceAll(test.want, "SERVER: ", m.env.vars["IKHNOS_SERVER"]+": "), got.stderr)
		})
	}
}

func TestServerThatIsNotThere(t *testing.T) {
	gone := newFakeServer(t, nil)
	m := newMachine(t, gone)
	gone.Close()
	got := m.run("org", "list")
	assert.Equal(t, exitUnreachable, got.code)
	assert.Contains(t, got.stderr, "error: the control server did not answer\n  why   "+gone.URL+": dial tcp")
}

func TestServerWithAnotherKey(t *testing.T) {
	m := newMachine(t, newFakeServer(t, nil))
	m.env.vars["IKHNOS_CA_PIN"] = "sha256:" + strings.Repeat("00", 32)
	got := m.run("org", "list")
	assert.Equal(t, exitUnreachable, got.code)
	assert.Contains(t, got.stderr, "error: the control server's certificate is not trusted\n")
	assert.Contains(t, got.stderr, "pin_mismatch")

	delete(m.env.vars, "IKHNOS_CA_PIN") // and without any pin the system's roots do not know it
	got = m.run("org", "list")
	assert.Equal(t, exitUnreachable, got.code)
	assert.Contains(t, got.stderr, "error: the control server's certificate is not trusted\n")
}

func TestWithoutServerOrToken(t *testing.T) {
	m := newMachine(t, nil)
	got := m.run("org", "list")
	assert.Equal(t, exitUsage, got.code)
	assert.Contains(t, got.stderr, "error: no control server is given\n  why ")

	got = m.run("org", "list", "--server", "https://localhost:1")
	assert.Equal(t, exitUsage, got.code)
	assert.Contains(t, got.stderr, "error: no admin token for https://localhost:1\n  why ")
}

func TestGroupsShowTheirHelp(t *testing.T) {
	m := newMachine(t, nil)
	assert.Contains(t, m.ok(), "On the machine of a collector:\n  check ")
	assert.Contains(t, m.ok("sender"), "ikhnos sender [command]")
	assert.Regexp(t, `--operator string .*\(required\)\n`, m.ok("sender", "revoke", "--help"))
	assert.Contains(t, m.ok("completion", "bash"), "bash completion")
}

// Every command of the tree says what it is for, and none takes a secret as an
// argument or a flag (trap-17): a flag about one names a file, or a Secret of a cluster.
func TestEveryCommand(t *testing.T) {
	about := regexp.MustCompile("token|secret|pass|credential|(^|-)key")
	fine := regexp.MustCompile("-file$|^kubernetes-secret$|^tls-key$|^with-keys$")
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		assert.NotEmpty(t, cmd.Short, cmd.CommandPath())
		cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
			if about.MatchString(flag.Name) {
				assert.Regexp(t, fine, flag.Name, "%s --%s", cmd.CommandPath(), flag.Name)
			}
		})
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(New())
}

func TestDistance(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"lst", "list", 1}, {"list", "list", 0}, {"abc", "xyz", 3}, {"kitten", "sitting", 3}} {
		assert.Equal(t, test.want, distance(test.a, test.b), "%s %s", test.a, test.b)
		assert.Equal(t, test.want, distance(test.b, test.a), "%s %s", test.b, test.a)
	}
}

func TestMainReadsTheProcess(t *testing.T) {
	var out, errs strings.Builder
	assert.Equal(t, exitDone, Main([]string{"version"}, strings.NewReader(""), &out, &errs, []string{"A=b", "=C:"}))
	assert.Contains(t, out.String(), "ikhnos")
	require.Empty(t, errs.String())
}
