// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fleetFile writes a fleet of n clusters that send to one operator.
func fleetFile(t *testing.T, n int) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("operators:\n  - {id: op-central, name: Central, role: central}\n" +
		"  - {id: op-eu, name: EU, destination: op-central, labels: {region: eu}, address: eu.example.com}\nclusters:\n")
	for i := range n {
		fmt.Fprintf(&b, "  - {id: c%d, labels: {env: prod}, tenant: \"1:%d\", approve: true}\n", i, i)
	}
	b.WriteString("senders:\n")
	for i := range n {
		fmt.Fprintf(&b, "  - {id: c%d, operator: op-eu}\n", i)
	}
	path := filepath.Join(t.TempDir(), "fleet.yaml")
	require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o600))
	return path
}

// auditLines is how much the server has recorded.
func (s *realServer) auditLines() int {
	return strings.Count(s.exec(exitDone, "audit", "export"), "\n")
}

// A fleet from a file: planned, applied, applied again without a change and
// without an audit line, exported, pruned.
func TestApply(t *testing.T) {
	s := newRealServer(t)
	path, dir := fleetFile(t, 50), filepath.Join(t.TempDir(), "material")
	before := s.auditLines()

	planned := s.exec(exitDone, "apply", "-f", path, "--dry-run", "--out-dir", dir)
	assert.Contains(t, planned, "+ cluster   c49          register, approve\n")
	assert.Contains(t, planned, "+ sender    c49 → op-eu  connect, token for 1 h\n")
	assert.True(t, strings.HasSuffix(planned, "  0 unchanged.  Nothing was changed (dry run).\n"), planned)
	assert.NoDirExists(t, dir)
	assert.Equal(t, before, s.auditLines(), "a dry run changes nothing")

	done := s.exec(exitDone, "apply", "-f", path, "--out-dir", dir)
	assert.True(t, strings.HasSuffix(done, "  102 added, 0 unchanged.\n"), done)
	token := filepath.Join(dir, "op-eu-export-c49")
	entries, err := os.ReadDir(token)
	require.NoError(t, err)
	require.NotEmpty(t, entries)
	var written strings.Builder
	for _, entry := range entries {
		info, err := entry.Info()
		require.NoError(t, err)
		assert.Zero(t, info.Mode().Perm()&0o077, entry.Name())
		content, err := os.ReadFile(filepath.Join(token, entry.Name()))
		require.NoError(t, err)
		written.Write(content)
	}
	issued, _ := s.enroll(written.String())
	assert.Equal(t, "op-eu-export-c49", issued.Name)
	assert.DirExists(t, filepath.Join(dir, "op-central"))

	before = s.auditLines()
	assert.Equal(t, "  102 unchanged.  Nothing was changed.\n", s.exec(exitDone, "apply", "-f", path, "--prune", "revoke", "--out-dir", dir))
	exported := filepath.Join(t.TempDir(), "export.yaml")
	require.NoError(t, os.WriteFile(exported, []byte(s.exec(exitDone, "export")), 0o600))
	assert.Equal(t, "  102 unchanged.  Nothing was changed.\n", s.exec(exitDone, "apply", "-f", exported))
	require.NoError(t, os.WriteFile(exported, []byte(s.exec(exitDone, "export", "-o", "json")), 0o600))
	assert.Contains(t, s.exec(exitDone, "apply", "-f", exported, "-o", "json"), `"unchanged": 102`)
	assert.Equal(t, before, s.auditLines(), "what changes nothing audits nothing")

	edit(t, path, `c3, labels: {env: prod}`, `c3, labels: {env: stage}`)
	assert.Contains(t, s.exec(exitDone, "apply", "-f", path), "~ cluster  c3  labels.env: prod → stage\n  1 changed, 101 unchanged.\n")
	edit(t, path, "  - {id: c9, operator: op-eu}\n", "")
	assert.Contains(t, s.exec(exitDone, "apply", "-f", path), "! sender  c9 → op-eu  not in the file; kept (--prune revoke would cut it off)")
	lines := s.auditLines()
	r := s.run("apply", "-f", path, "--prune", "revoke")
	assert.Equal(t, exitUsage, r.code, "a script is not asked, so it must say --yes")
	assert.Contains(t, r.stderr, "error: nothing was changed: 1 cut-off not confirmed\n")
	assert.Contains(t, r.stderr, "repeat with --yes\n")
	assert.Equal(t, lines, s.auditLines())
	assert.Contains(t, s.exec(exitNotConfirmed, "apply", "-f", path, "--prune", "revoke", "--wait", "0s", "--yes"), "1 cut off, 101 unchanged.")
	assert.Contains(t, s.exec(exitDone, "export"), "# revoked, so not declared: c9 → op-eu\n")
	s.scan()
}

// edit replaces what must be in a file.
func edit(t *testing.T, path, old, fresh string) {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(content), old)
	require.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(content), old, fresh, 1)), 0o600))
}

// One entry that is wrong touches nothing, and is named with its line and field.
func TestApplyRefuses(t *testing.T) {
	s := newRealServer(t)
	path := fleetFile(t, 3)
	edit(t, path, "c1, labels: {env: prod}", "c1, labels: {continuum.env: prod}")
	before := s.auditLines()
	r := s.run("apply", "-f", path)
	assert.Equal(t, exitUsage, r.code)
	assert.Empty(t, r.stdout)
	assert.Equal(t, 1, strings.Count(r.stderr, path+":6:23: clusters[1].labels.continuum.env: "), r.stderr)
	assert.Contains(t, r.stderr, "nothing was changed")
	edit(t, path, "continuum.env", "env")
	edit(t, path, "- {id: c2, operator: op-eu}", "- {id: c7, operator: op-eu}")
	assert.Contains(t, s.run("apply", "-f", path).stderr, "senders[2].id: there is no cluster c7")
	assert.Equal(t, before, s.auditLines())

	s.exec(exitDone, "operator", "create", "Central", "--id", "op-central", "--role", "central", "--label", "a=b")
	edit(t, path, "c7", "c2")
	r = s.run("apply", "-f", path)
	assert.Equal(t, exitRefused, r.code, r.stderr)
	assert.Contains(t, r.stdout, "! operator  op-central  labels.a: b → (none) cannot be changed")
	assert.Contains(t, r.stderr, "nothing was changed: 1 conflict")
	assert.NotContains(t, s.exec(exitDone, "cluster", "list", "-o", "json"), "c0")

	assert.Equal(t, exitUsage, s.run("apply").code)
	assert.Equal(t, exitUsage, s.run("apply", "-f", filepath.Join(t.TempDir(), "none")).code)
}

// A person is asked once, and a file may come on standard input.
func TestApplyAsks(t *testing.T) {
	s := newRealServer(t)
	s.env.inTerminal = true
	s.stdin = "no\n"
	path := fleetFile(t, 1)
	assert.Equal(t, exitUsage, s.run("apply", "-f", path).code)
	s.exec(exitDone, "apply", "-f", path, "--yes")
	s.stdin = "clusters: [{id: c0, labels: {env: prod}, tenant: '1:0'}]"
	assert.Equal(t, "  1 unchanged.  Nothing was changed.\n", s.exec(exitDone, "apply", "-f", "-"))
}

// Whatever is printed for a collector has nothing that ikhnos check config mends.
func TestCheckPrinted(t *testing.T) {
	s := newRealServer(t)
	path, dir := fleetFile(t, 1), t.TempDir()
	s.exec(exitDone, "apply", "-f", path, "--out-dir", dir, "--format", "config")
	printed, err := filepath.Glob(filepath.Join(dir, "*", "*.yaml"))
	require.NoError(t, err)
	require.Len(t, printed, 3, "two operators and a sender")
	assert.Equal(t, "nothing to mend in 3 files\n", s.exec(exitDone, append([]string{"check", "config"}, printed...)...))

	edit(t, printed[0], "reload_interval: 5m", "reload_interval: 0s")
	r := s.run("check", "config", printed[0])
	assert.Equal(t, exitFound, r.code)
	assert.Regexp(t, `^.+\.yaml:\d+: tls-no-reload: receiver otlp reads its certificate once\n  why   .+\n  fix   .+\n1 finding in 1 file\n$`, r.stdout)
	assert.Equal(t, exitUsage, s.run("check", "config").code)
	assert.Equal(t, exitUsage, s.run("check", "config", filepath.Join(dir, "none")).code)
	s.stdin = "a: ["
	assert.Contains(t, s.exec(exitFound, "check", "config", "-", "-o", "json"), `"rule": "not-yaml"`)
}

// What is too large to be a fleet is refused, never cut: with --prune, what was cut
// off the file would be cut off the fleet.
func TestApplyRefusesWhatIsTooLarge(t *testing.T) {
	m := newMachine(t, newFakeServer(t, nil))
	m.stdin = "clusters: []\n" + strings.Repeat("#", maxFleetBytes)
	got := m.run("apply", "-f", "-")
	assert.Equal(t, exitUsage, got.code)
	assert.Contains(t, got.stderr, "more than 32 MiB")
	assert.Equal(t, exitUsage, m.run("apply", "-f", "/dev/zero").code)
}
