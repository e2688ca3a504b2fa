// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// HealthVariable is set for every collector: a free loopback address. A
// configuration that gives it to health_check, as
//
//	extensions: {health_check: {endpoint: "${env:TESTBED_HEALTH}"}}
//
// is waited for through that; any other by its log line at level info.
const HealthVariable = "TESTBED_HEALTH"

// readyLine is what a collector logs when its pipelines run.
const readyLine = "Everything is ready. Begin running and processing data."

// Collector is a collector process. Its Kill, Stop, Start, Restart, Pause and
// Resume act on the process; it keeps its configuration and state over them. A test
// that ends kills it.
type Collector struct {
	child

	// Dir is a folder of its own, with a space in its path; STATE names it to the
	// configuration, as in ${env:STATE}/receiver.
	Dir string

	health string
	config []string // paths
	byLog  bool     // readiness is read from the log
}

// CollectorSpec says which collector to start.
type CollectorSpec struct {
	Name    string   // of the log, and in messages
	Config  []string // texts in YAML, merged in this order
	Env     []string // KEY=value, beside TESTBED_HEALTH and STATE
	Args    []string // further arguments
	Program string   // path; "" is continuum-collector
	Dir     string   // its folder; "" makes one
}

// StartCollector starts a collector and waits until its pipelines run.
func StartCollector(t testing.TB, spec CollectorSpec) *Collector {
	t.Helper()
	c := NewCollector(t, spec)
	c.Start()
	return c
}

// NewCollector prepares a collector, for a test that readies its folder before
// Start or expects it not to start, with Launch.
func NewCollector(t testing.TB, spec CollectorSpec) *Collector {
	t.Helper()
	c := &Collector{Dir: spec.Dir, health: Address(t)}
	if c.Dir == "" {
		c.Dir = Dir(t)
	}
	if spec.Program == "" {
		spec.Program = Program(t, "continuum-collector")
	}
	c.child = child{t: t, name: spec.Name, dir: c.Dir, program: spec.Program, ready: c.runs}
	c.env = append([]string{HealthVariable + "=" + c.health, "STATE=" + c.Dir}, spec.Env...)
	for i := range spec.Config {
		path := filepath.Join(c.Dir, fmt.Sprintf("%s-%d.yaml", spec.Name, i))
		c.config = append(c.config, path)
		c.args = append(c.args, "--config", path)
	}
	c.args = append(c.args, spec.Args...)
	c.SetConfig(spec.Config...)
	return c
}

// SetConfig replaces the texts of the configuration, as many as there were, for the
// next start or for a reload by SIGHUP.
func (c *Collector) SetConfig(texts ...string) {
	c.t.Helper()
	require.Len(c.t, texts, len(c.config))
	c.byLog = true
	for i, text := range texts {
		require.NoError(c.t, os.WriteFile(c.config[i], []byte(text), 0o600))
		if strings.Contains(text, HealthVariable) {
			c.byLog = false
		}
	}
}

// runs is nil when the pipelines run.
func (c *Collector) runs(ctx context.Context) error {
	if c.byLog {
		text, err := c.Output()
		if err == nil && !strings.Contains(text, readyLine) {
			err = errors.New("it has not logged that it is ready")
		}
		return err
	}
	return Answers(ctx, "http://"+c.health+"/")
}

// Answers is nil when a GET of a URL is answered with 200.
func Answers(ctx context.Context, url string) error {
	code, body, err := Get(ctx, nil, url)
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("%s answers %d: %s", url, code, body)
	}
	return err
}

// Get reads a URL on a connection of its own and returns the status code and the
// body; transport nil is for http.
func Get(ctx context.Context, transport *http.Transport, url string) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, nil, err
	}
	if transport == nil {
		transport = &http.Transport{}
	}
	transport.DisableKeepAlives = true
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}
