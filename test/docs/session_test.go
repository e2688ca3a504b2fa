// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/stretchr/testify/require"

	"github.com/ikhnos/continuum/test/testbed"
)

// prelude is what a session begins with. Exit code 10 (a check found something) is
// no failure, nor is 4 (done, not confirmed everywhere) of a revocation where no
// operator runs.
const prelude = `set -eEu
at=0
trap 'code=$?; echo "$page:$at: exit code $code" >&2; exit $code' ERR
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
ikhnos() {
  local code=0
  command ikhnos "$@" || code=$?
  case "$code $*" in 10\ * | 4\ *revoke* | 4\ *delete*) code=0 ;; esac
  return $code
}
`

// stubs stand for programs that would change this machine or a cluster: they take
// their input and do nothing.
var stubs = []string{"kubectl", "helm", "systemctl", "journalctl", "sudo"}

// site is a folder in which pages run against one control server.
type site struct {
	t      *testing.T
	server *testbed.Server
	root   string // stands for /, where the pages name absolute paths
	ports  map[string]string
	age    string // public key of encrypted backups
}

func newSite(t *testing.T, g group) *site {
	t.Helper()
	s := &site{t: t, root: t.TempDir(), ports: map[string]string{}}
	for _, dir := range []string{"work/bin", "stubs", "home", "backup", "elsewhere", "etc/ikhnos", "var/lib/continuum"} {
		require.NoError(t, os.MkdirAll(filepath.Join(s.root, dir), 0o700))
	}
	s.write("etc/ikhnos/passphrase", "correct horse battery staple\n")
	s.write("etc/ikhnos/passphrase.new", "another correct horse battery staple\n")
	for _, name := range stubs {
		s.program("stubs/"+name, "cat >/dev/null")
	}
	s.link(testbed.Program(t, "ikhnos"), "work/bin/ikhnos")
	s.link(filepath.Join(testbed.Root(t), "distributions"), "work/distributions")
	collector := testbed.Program(t, "continuum-collector")
	if g.validate {
		s.program("work/bin/continuum-collector", fmt.Sprintf(`exec %q validate "$@"`, collector))
	} else {
		s.link(collector, "work/bin/continuum-collector")
	}
	identity, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	s.age = identity.Recipient().String()
	s.write("work/age.key", identity.String()+"\n")
	var args []string
	if g.sealed {
		args = []string{"--passphrase-file", filepath.Join(s.root, "etc/ikhnos/passphrase")}
	}
	s.server = testbed.StartServer(t, args...)
	s.link(s.server.DataDir, "work/ikhnos-data")
	if g.fleet {
		s.declareFleet()
	}
	return s
}

// declareFleet makes what the pages name, and a copy of the data for commands that
// need it alone.
func (s *site) declareFleet() {
	s.server.Central("op-central")
	s.server.Regional("op-eu", "op-central")
	for _, cluster := range []string{"c7", "c9", "c12", "c17"} {
		s.server.Sender("op-eu", cluster)
	}
	s.server.Enroll("op-eu", "c12").WriteDir(s.t, filepath.Join(s.root, "var/lib/continuum/c12/op-eu"))
	s.server.Stop()
	out, err := exec.CommandContext(s.t.Context(), "cp", "-a", s.server.DataDir, filepath.Join(s.root, "var/lib/ikhnos")).CombinedOutput()
	require.NoError(s.t, err, string(out))
	s.server.Start()
}

func (s *site) write(name, text string) {
	s.t.Helper()
	require.NoError(s.t, os.WriteFile(filepath.Join(s.root, name), []byte(text), 0o600))
}

func (s *site) program(name, script string) {
	s.t.Helper()
	require.NoError(s.t, os.WriteFile(filepath.Join(s.root, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700))
}

func (s *site) link(target, name string) {
	s.t.Helper()
	require.NoError(s.t, os.Symlink(target, filepath.Join(s.root, name)))
}

// substitutions are what a page leaves to its reader, and what must not touch this
// machine. They are made one after the other.
func (s *site) substitutions() []substitution {
	return []substitution{
		{regexp.MustCompile(`https://(ikhnos\.example\.com|127\.0\.0\.1)(:8443)?`), s.server.URL},
		{regexp.MustCompile(`sha256:…|\bPIN\b`), s.server.Pin},
		{regexp.MustCompile(`age1…`), s.age},
		{regexp.MustCompile(`\bUSER\b`), fmt.Sprint(os.Getuid())},
		{regexp.MustCompile(`\bID\b`), "c7"},
		{regexp.MustCompile(`\bFILE\b`), "/etc/ikhnos/passphrase"},
		{regexp.MustCompile(`(?m)(^|[\s="'(])/(var/lib|etc|run/secrets|backup|elsewhere)\b`), "${1}" + s.root + "/$2"},
	}
}

type substitution struct {
	pattern *regexp.Regexp
	text    string
}

var portPattern = regexp.MustCompile(`\b[12]?(4317|4318|313[34]|8888)\b`)

// fill makes a block fit for this machine.
func (s *site) fill(text string) string {
	for _, sub := range s.substitutions() {
		text = sub.pattern.ReplaceAllString(text, sub.text)
	}
	return portPattern.ReplaceAllStringFunc(text, func(port string) string {
		if s.ports[port] == "" {
			s.ports[port] = fmt.Sprint(testbed.Port(s.t))
		}
		return s.ports[port]
	})
}

// script is the session of a page.
func (s *site) script(p *page) string {
	var script strings.Builder
	script.WriteString(prelude)
	for _, b := range p.blocks {
		text := b.text
		for _, e := range exceptions {
			if e.page == p.name {
				text = e.pattern.ReplaceAllString(text, ":")
			}
		}
		fmt.Fprintf(&script, "at=%d\n%s", b.line, s.fill(text))
	}
	return script.String()
}

// run runs the commands of a page.
func (s *site) run(p *page) {
	s.t.Helper()
	token, err := os.ReadFile(s.server.AdminTokenFile())
	require.NoError(s.t, err)
	s.write("script", s.script(p))
	ctx := testbed.Context(s.t, 10*time.Minute)
	cmd := exec.CommandContext(ctx, "bash", filepath.Join(s.root, "script"))
	cmd.Dir = filepath.Join(s.root, "work")
	cmd.Env = []string{
		"PATH=" + strings.Join([]string{filepath.Join(s.root, "stubs"), filepath.Join(cmd.Dir, "bin"), os.Getenv("PATH")}, ":"),
		"HOME=" + filepath.Join(s.root, "home"), "page=" + p.name,
		"IKHNOS_SERVER=" + s.server.URL, "IKHNOS_CA_PIN=" + s.server.Pin, "IKHNOS_TOKEN=" + strings.TrimSpace(string(token)),
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a page that fails leaves no collector behind
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out, err := cmd.CombinedOutput()
	require.NotNil(s.t, cmd.Process, "bash: %v", err)
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // nobody is left, mostly
	text := string(out)
	require.NoError(s.t, err, "%s; the end of what it printed:\n%s", p.name, text[max(0, len(text)-4000):])
}
