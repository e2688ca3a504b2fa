// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"flag"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ikhnos/continuum/internal/controlapi"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// asProgram makes this test binary be ikhnos, for tests that end a process.
const asProgram = "IKHNOS_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
	}
	goleak.VerifyTestMain(m)
}

// testNow is the time on every machine of these tests.
var testNow = time.Date(2026, 11, 30, 12, 3, 10, 0, time.UTC)

// fakeServer answers with what a test put under "METHOD /path", over real TLS.
type fakeServer struct {
	*httptest.Server
	answers  map[string]any // any JSON value, or *controlapi.Problem, or func(http.ResponseWriter)
	requests []string       // method, path with query and body, in order
	headers  []http.Header
}

func newFakeServer(t *testing.T, answers map[string]any) *fakeServer {
	t.Helper()
	f := &fakeServer{answers: answers}
	f.Server = httptest.NewUnstartedServer(http.HandlerFunc(f.serve))
	f.Config.ErrorLog = log.New(io.Discard, "", 0)
	f.StartTLS()
	t.Cleanup(f.Close)
	return f
}

func (f *fakeServer) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	line := r.Method + " " + r.URL.RequestURI()
	if len(body) > 0 {
		line += " " + string(body)
	}
	f.requests = append(f.requests, line)
	f.headers = append(f.headers, r.Header.Clone())
	answer, ok := f.answers[r.Method+" "+r.URL.Path]
	if !ok {
		answer = controlapi.NewProblem(controlapi.ReasonNotFound, "")
	}
	switch a := answer.(type) {
	case func(http.ResponseWriter):
		a(w)
	case *controlapi.Problem:
		w.Header().Set("Content-Type", controlapi.ProblemContentType)
		w.WriteHeader(a.Status)
		_ = json.NewEncoder(w).Encode(a)
	case nil:
		w.WriteHeader(http.StatusNoContent)
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(a)
	}
}

// pin is the pin of the server's certificate, which is its own CA.
func (f *fakeServer) pin() string {
	sum := sha256.Sum256(f.Certificate().RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// machine is what a test's command line runs on.
type machine struct {
	t     *testing.T
	env   *environment
	stdin string
}

func newMachine(t *testing.T, f *fakeServer) *machine {
	t.Helper()
	vars := map[string]string{}
	if f != nil {
		vars["IKHNOS_SERVER"], vars["IKHNOS_CA_PIN"] = f.URL, f.pin()
		vars["IKHNOS_TOKEN"] = controlapi.NewSecret(controlapi.SecretAdmin, nil)
	}
	return &machine{t: t, env: &environment{vars: vars, configDir: t.TempDir(), now: func() time.Time { return testNow }}}
}

// result is how a command line ended.
type result struct {
	code           int
	stdout, stderr string
}

func (m *machine) run(args ...string) result {
	m.t.Helper()
	var stdout, stderr bytes.Buffer
	ctx := withEnvironment(context.WithoutCancel(m.t.Context()), m.env)
	code := run(ctx, args, strings.NewReader(m.stdin), &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

// ok runs a command line that must succeed and returns its standard output.
func (m *machine) ok(args ...string) string {
	m.t.Helper()
	r := m.run(args...)
	require.Equal(m.t, exitDone, r.code, "%v\n%s%s", args, r.stdout, r.stderr)
	return r.stdout
}

// golden compares text with a file of testdata, the server's address and the
// secrets of this run replaced by fixed words.
func golden(t *testing.T, name, got string, replace ...string) {
	t.Helper()
	got = strings.NewReplacer(replace...).Replace(got)
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), got)
}

// page is a list as the API answers it.
func page(items ...any) map[string]any {
	if items == nil {
		items = []any{}
	}
	return map[string]any{"items": items, "nextCursor": ""}
}

// decoded is base64url without padding.
func decoded(t *testing.T, s string) []byte {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(s)
	require.NoError(t, err)
	return raw
}
