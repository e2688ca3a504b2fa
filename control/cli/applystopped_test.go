// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/internal/controlapi"
	"github.com/ikhnos/continuum/internal/controlclient"
)

// onTheWay is a real server behind a proxy, where tests meet the requests of a
// command on their way.
type onTheWay struct {
	*realServer
	direct map[string]string // the environment without the proxy
	front  *fakeServer

	mu            sync.Mutex
	before, after func(request string) // the server hears it, and the answer goes back; guarded by mu, nil for nothing
}

func newOnTheWay(t *testing.T) *onTheWay {
	t.Helper()
	w := &onTheWay{realServer: newRealServer(t)}
	w.direct = maps.Clone(w.env.vars)
	behind, err := url.Parse(w.env.vars["IKHNOS_SERVER"])
	require.NoError(t, err)
	transport, err := controlclient.PinnedTransport([]string{w.env.vars["IKHNOS_CA_PIN"]}, nil)
	require.NoError(t, err)
	t.Cleanup(transport.CloseIdleConnections)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(behind) }, Transport: transport}
	w.front = &fakeServer{Server: httptest.NewUnstartedServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // a killed one
		}
		request := r.Method + " " + r.URL.Path + " " + string(body)
		r = r.WithContext(context.WithoutCancel(r.Context()))
		r.Body = io.NopCloser(bytes.NewReader(body))
		w.meet(true, request)
		answer := httptest.NewRecorder()
		proxy.ServeHTTP(answer, r)
		w.meet(false, request)
		maps.Copy(out.Header(), answer.Header())
		out.WriteHeader(answer.Code)
		_, _ = out.Write(answer.Body.Bytes())
	}))}
	w.front.Config.ErrorLog = log.New(io.Discard, "", 0)
	w.front.StartTLS()
	t.Cleanup(w.front.Close)
	w.env.vars["IKHNOS_SERVER"], w.env.vars["IKHNOS_CA_PIN"] = w.front.URL, w.front.pin()
	return w
}

func (w *onTheWay) meet(before bool, request string) {
	w.mu.Lock()
	do := w.after
	if before {
		do = w.before
	}
	w.mu.Unlock()
	if do != nil {
		do(request)
	}
}

// at runs do when the server is about to hear, or has heard, the first request of
// which all parts are found in method, path and body.
func (w *onTheWay) at(heard bool, parts []string, do func()) {
	var met atomic.Bool // others pass meanwhile
	meet := func(request string) {
		for _, part := range parts {
			if !strings.Contains(request, part) {
				return
			}
		}
		if met.CompareAndSwap(false, true) {
			do()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.before, w.after = meet, nil; heard {
		w.before, w.after = nil, meet
	}
}

// cut ends the connection of a request without an answer.
func cut() { panic(http.ErrAbortHandler) }

// complete finds, in the folders of a fleet of n clusters, tokens that get a
// certificate each, for both operators and every sender.
func (w *onTheWay) complete(dir string, n int) {
	w.t.Helper()
	names := []string{"op-central", "op-eu"}
	for i := range n {
		names = append(names, fmt.Sprintf("op-eu-export-c%d", i))
	}
	for _, name := range names {
		issued, _ := w.enroll(contentOf(w.t, filepath.Join(dir, name)))
		assert.Equal(w.t, name, issued.Name)
	}
}

// contentOf is the text of all files of a folder.
func contentOf(t *testing.T, dir string) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	var all strings.Builder
	for _, path := range paths {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		all.Write(content)
	}
	return all.String()
}

// An apply that was killed, wherever it was, is finished by the next one: every
// folder is there, with a token that works.
func TestApplyAfterAKill(t *testing.T) {
	for name, moment := range map[string]struct {
		request []string
		heard   bool // by the server
	}{
		"before an operator is made":      {[]string{"PUT", "/operators/op-eu "}, false},
		"an operator was made":            {[]string{"PUT", "/operators/op-eu "}, true},
		"an operator's token was made":    {[]string{"POST", "/op-eu/enrollment-tokens", "receiver"}, true},
		"before a sender is connected":    {[]string{"PUT", "/senders/c1 "}, false},
		"a sender was connected":          {[]string{"PUT", "/senders/c1 "}, true},
		"before a sender's token is made": {[]string{"POST", "/op-eu/enrollment-tokens", "c1"}, false},
		"a sender's token was made":       {[]string{"POST", "/op-eu/enrollment-tokens", "c1"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newOnTheWay(t)
			path, dir := fleetFile(t, 2), filepath.Join(t.TempDir(), "material")
			w.killed(moment.heard, moment.request, "apply", "-f", path, "--out-dir", dir)
			w.exec(exitDone, "apply", "-f", path, "--out-dir", dir)
			assert.Equal(t, "  6 unchanged.  Nothing was changed.\n", w.exec(exitDone, "apply", "-f", path, "--out-dir", dir))
			w.complete(dir, 2)
		})
	}
}

// killed runs a command line as a process that is killed at a request; after that
// there is no proxy any more.
func (w *onTheWay) killed(heard bool, request []string, args ...string) {
	w.t.Helper()
	ctx, kill := context.WithCancel(context.WithoutCancel(w.t.Context()))
	defer kill()
	dead := make(chan struct{})
	w.at(heard, request, func() {
		kill()
		<-dead
		cut()
	})
	program, err := os.Executable()
	require.NoError(w.t, err)
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = []string{asProgram + "=1", "HOME=" + w.t.TempDir()}
	for name, value := range w.env.vars {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	assert.ErrorContains(w.t, cmd.Run(), "killed")
	close(dead)
	w.front.Close() // nothing that it sent is heard from now on
	w.env.vars = w.direct
}

// A heartbeat secret that was lost with the apply that made it is made again.
func TestHeartbeatSecretAfterAKill(t *testing.T) {
	w := newOnTheWay(t)
	path, dir := fleetFile(t, 0), filepath.Join(t.TempDir(), "material")
	edit(t, path, "clusters:\nsenders:\n", "")
	apply := []string{"apply", "-f", path, "--out-dir", dir}
	w.exec(exitDone, apply...)
	w.complete(dir, 0)
	edit(t, path, "labels: {region: eu}", "labels: {region: eu}, heartbeat: \"on\"")
	w.killed(true, []string{"POST", "/op-eu/heartbeat"}, apply...)
	assert.Contains(t, w.exec(exitDone, apply...), "~ operator  op-eu  its heartbeat secret was not written, so another one\n")
	secret, err := os.ReadFile(filepath.Join(dir, "op-eu", "heartbeat"))
	require.NoError(t, err)
	require.NoError(t, w.client.Heartbeat(t.Context(), strings.TrimSpace(string(secret)), &controlapi.Heartbeat{
		Version: "test", Instance: "1", StartedAt: time.Now(), Status: controlapi.HealthOK, Certificates: []controlapi.HeartbeatCertificate{},
	}))
	assert.Equal(t, "  2 unchanged.  Nothing was changed.\n", w.exec(exitDone, apply...))
}

// What an apply tells that lost the server on its way, and that the next one goes on.
func TestApplyLosesTheServer(t *testing.T) {
	w := newOnTheWay(t)
	path, dir := fleetFile(t, 3), filepath.Join(t.TempDir(), "material")
	apply := []string{"apply", "-f", path, "--out-dir", dir}
	w.at(true, []string{"POST", "/op-eu/enrollment-tokens", "receiver"}, cut)
	r := w.run(apply...)
	assert.Equal(t, exitUnreachable, r.code)
	assert.Regexp(t, `^error: the control server did not answer: stopped after 4 of 8 changes
  why   https://127.0.0.1:.+
  do    nothing is lost: when the server answers again, apply again, and the rest follows
$`, r.stderr)
	assert.Contains(t, w.exec(exitDone, apply...), "  3 added, 1 changed, 4 unchanged.\n")
	w.complete(dir, 3)
}

// An apply that has to wait for another one, which writes into the same folders.
func TestTwoAppliesIntoTheSameFolders(t *testing.T) {
	w := newOnTheWay(t)
	w.env.poll = time.Millisecond
	path, dir := fleetFile(t, 3), filepath.Join(t.TempDir(), "material")
	apply := []string{"apply", "-f", path, "--out-dir", dir}
	stopped, goOn := make(chan struct{}), make(chan struct{})
	w.at(false, []string{"POST", "/enrollment-tokens", "c1"}, func() { close(stopped); <-goOn })
	first := make(chan result)
	go func() { first <- w.run(apply...) }()
	<-stopped
	said := &firstWrite{done: make(chan struct{})}
	second := make(chan result)
	go func() {
		var stdout bytes.Buffer
		code := run(withEnvironment(context.WithoutCancel(t.Context()), w.env), apply, strings.NewReader(""), &stdout, said)
		second <- result{code, stdout.String(), said.String()}
	}()
	<-said.done
	close(goOn)
	assert.Equal(t, exitDone, (<-first).code)
	assert.Equal(t, result{exitDone, "  8 unchanged.  Nothing was changed.\n", "warning: another apply writes into " + dir + ": waiting for its end\n"}, <-second)
	w.complete(dir, 3)
}

// firstWrite tells when something is written to it.
type firstWrite struct {
	bytes.Buffer
	done chan struct{}
}

func (f *firstWrite) Write(p []byte) (int, error) {
	if f.Len() == 0 {
		defer close(f.done)
	}
	return f.Buffer.Write(p)
}

// Two applies at once from two places cannot wait for each other. The one that finds
// two tokens for a name fails and says so, and every dead token is named when its
// place applies again.
func TestTwoAppliesFromTwoPlaces(t *testing.T) {
	w := newOnTheWay(t)
	path, here, there := fleetFile(t, 2), filepath.Join(t.TempDir(), "here"), filepath.Join(t.TempDir(), "there")
	stopped, goOn := make(chan struct{}), make(chan struct{})
	w.at(false, []string{"POST", "/enrollment-tokens", "c1"}, func() { close(stopped); <-goOn })
	first := make(chan result)
	go func() { first <- w.run("apply", "-f", path, "--out-dir", here) }()
	<-stopped
	other := w.exec(exitDone, "apply", "-f", path, "--out-dir", there)
	assert.Contains(t, other, "~ sender    c1 → op-eu  has no folder yet, token for 1 h\n")
	assert.Regexp(t, `! operator  op-eu       has not enrolled, and its token, until \S+, is in no folder here `+
		`\(ikhnos operator install op-eu makes another and ends it\)\n`, other)

	close(goOn)
	r := <-first
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.stderr, "error: another apply ran at the same time, and both made tokens for op-eu-export-c1\n"+
		"  why   of two tokens for one name only the later one works\n"+
		"  do    apply again, here and where the other one ran: each tells which of its folders hold a token that has ended\n")
	assert.Equal(t, "  6 unchanged.  Nothing was changed.\n", w.exec(exitDone, "apply", "-f", path, "--out-dir", here))
	assert.Contains(t, w.exec(exitDone, "apply", "-f", path, "--out-dir", there), "! sender    c1 → op-eu  has not enrolled, and its token, ")
	w.complete(here, 2)
}

// A token that ended before it was used is made again; a sender that has enrolled
// once gets none that nobody asked for.
func TestApplyMakesAnEndedTokenAgain(t *testing.T) {
	w := newOnTheWay(t)
	path, dir := fleetFile(t, 1), filepath.Join(t.TempDir(), "material")
	apply := []string{"apply", "-f", path, "--out-dir", dir}
	w.exec(exitDone, append(apply, "--ttl", "1h")...)
	listed := w.exec(exitDone, "token", "list", "--operator", "op-eu")
	id := regexp.MustCompile(`(?m)^(\S+)\s+op-eu-export-c0`).FindStringSubmatch(listed)[1]
	w.exec(exitDone, "token", "revoke", id, "--operator", "op-eu")
	assert.Contains(t, w.exec(exitDone, apply...), "~ sender  c0 → op-eu  the token in its folder has ended, token for 1 h\n")
	w.complete(dir, 1)

	serial := regexp.MustCompile(`"serial": "(\w+)"`).FindStringSubmatch(w.exec(exitDone, "cert", "list", "--holder", "op-eu-export-c0", "-o", "json"))[1]
	w.exec(exitNotConfirmed, "cert", "revoke", serial, "--operator", "op-eu")
	assert.Equal(t, "  4 unchanged.  Nothing was changed.\n", w.exec(exitDone, apply...))
}
