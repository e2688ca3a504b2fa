// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/control/cli/apiclient"
	"github.com/ikhnos/continuum/internal/controlclient"
)

// Server is an `ikhnos server`. Its Kill, Stop, Start, Restart, Pause and Resume act
// on the process; it keeps its data, address, pin and admin token over them. A test
// that ends kills it.
type Server struct {
	child

	API     *apiclient.Client // administers organisation default; nil until it answered once
	URL     string
	Pin     string // of its CA, "sha256:<hex>"
	DataDir string
}

// StartServer starts a server on a free port with a data directory of its own, and
// waits until it answers. args are added to its command line, such as
// "--leaf-lifetime", "60s".
func StartServer(t testing.TB, args ...string) *Server {
	t.Helper()
	s := NewServer(t, filepath.Join(Dir(t), "data"), args...)
	s.Start()
	return s
}

// NewServer prepares a server on a data directory, for a test that has its own.
func NewServer(t testing.TB, dataDir string, args ...string) *Server {
	t.Helper()
	address := Address(t)
	s := &Server{URL: "https://" + address, DataDir: dataDir}
	s.child = child{t: t, name: "ikhnos-server", dir: Dir(t), program: Program(t, "ikhnos"), ready: s.answers}
	s.args = append([]string{"server", "--data-dir", s.DataDir, "--listen", address, "--metrics-listen", "", "--public-url", s.URL}, args...)
	t.Cleanup(func() { // runs after the server has ended
		if s.API != nil {
			s.API.CloseIdleConnections()
		}
	})
	return s
}

// Attach returns the server that something else has started, such as the demo: what
// it declares and enrols works, what acts on the process does not.
func Attach(t testing.TB, api *apiclient.Client, url, pin string) *Server {
	return &Server{child: child{t: t}, API: api, URL: url, Pin: pin}
}

var pinPattern = regexp.MustCompile(`sha256:[0-9a-f]{64}`)

// answers makes the API client on the way.
func (s *Server) answers(ctx context.Context) error {
	if s.API == nil {
		log, err := s.Output()
		if err != nil {
			return err
		}
		token, err := os.ReadFile(s.AdminTokenFile())
		s.Pin = pinPattern.FindString(log)
		if err != nil || s.Pin == "" {
			return errors.Join(err, errors.New("the server has not printed its pin yet"))
		}
		s.API, err = apiclient.New(apiclient.Config{
			Server: s.URL, Token: strings.TrimSpace(string(token)), CAPins: []string{s.Pin}, Org: Org, Timeout: time.Minute,
		})
		if err != nil {
			return err
		}
	}
	_, err := s.API.Orgs(ctx)
	return err
}

// AdminTokenFile holds the first admin token.
func (s *Server) AdminTokenFile() string { return filepath.Join(s.DataDir, "admin.token") }

// Client returns a client of the machine paths that trusts the server by its pin.
// Its connections end with the test.
func (s *Server) Client() *controlclient.Client {
	s.t.Helper()
	transport, err := controlclient.PinnedTransport([]string{s.Pin}, nil)
	require.NoError(s.t, err)
	s.t.Cleanup(transport.CloseIdleConnections)
	client, err := controlclient.New(&http.Client{Transport: transport, Timeout: time.Minute}, s.URL, time.Now)
	require.NoError(s.t, err)
	return client
}
