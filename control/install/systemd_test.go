// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// unitOf is the unit among blocks and its name.
func unitOf(t *testing.T, blocks []Block) (name, text string) {
	t.Helper()
	b := block(t, blocks, ".service.sh")
	_, text, _ = strings.Cut(b.Text, "<<'END'\n")
	text, _, _ = strings.Cut(text, "END\n")
	return strings.TrimSuffix(b.File, ".sh"), text
}

// The units that are printed, and those of the packages.
func units(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{"continuum-collector.service": CollectorUnit().String(), "ikhnos.service": ServerUnit().String()}
	for _, blocks := range [][]Block{regional().Blocks(Systemd), central().Blocks(Systemd), sender(Stock).Blocks(Systemd), sender(Continuum).Blocks(Systemd)} {
		name, text := unitOf(t, blocks)
		all[name] = text
	}
	return all
}

func TestUnits(t *testing.T) {
	all := units(t)
	require.Len(t, all, 6)
	for name, text := range all {
		for _, line := range []string{
			"NoNewPrivileges=yes", "ProtectSystem=strict", "ProtectHome=yes", "CapabilityBoundingSet=", "MemoryDenyWriteExecute=yes",
			"SystemCallFilter=@system-service", "StateDirectoryMode=0700", "UMask=0077", "WantedBy=multi-user.target",
		} {
			assert.Contains(t, text, "\n"+line+"\n", name)
		}
		assert.Regexp(t, `\n(DynamicUser=yes|User=[a-z-]+)\n`, text, name)
		assert.Regexp(t, `\nStateDirectory=[a-z0-9/-]+\n`, text, name)
		for _, secret := range []string{receiver, export, heartbeat} {
			assert.NotContains(t, text, secret, name)
		}
	}
	for _, line := range []string{
		"LoadCredential=receiver-token:/etc/continuum/op-eu/receiver-token", "LoadCredential=export-token:/etc/continuum/op-eu/export-token",
		"LoadCredential=heartbeat:/etc/continuum/op-eu/heartbeat", `SetCredential=receiver-token:\n`, "StateDirectory=continuum/op-eu",
		"ExecStart=/usr/bin/continuum-collector --config /etc/continuum/op-eu.yaml",
	} {
		assert.Contains(t, all["continuum-op-eu.service"], "\n"+line+"\n")
	}
	golden(t, "continuum-op-eu.golden.service", all["continuum-op-eu.service"])
}

// The packages' units are these, written out.
func TestPackagedUnits(t *testing.T) {
	all := units(t)
	for _, name := range []string{"continuum-collector.service", "ikhnos.service"} {
		path := filepath.Join("..", "..", "packaging", name)
		if *update {
			require.NoError(t, os.WriteFile(path, []byte(all[name]), 0o644))
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, all[name], string(text), "go test ./control/install -update")
	}
}

var exposure = regexp.MustCompile(`Overall exposure level for \S+: ([0-9.]+)`)

// systemd takes every unit without a complaint and finds little left to close.
func TestSystemdVerifies(t *testing.T) {
	program, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("there is no systemd-analyze")
	}
	dir := t.TempDir()
	for name, text := range units(t) {
		path := filepath.Join(dir, name)
		// The programs and the users are not installed here.
		text = strings.NewReplacer("/usr/bin/continuum-collector", "/bin/true", "/usr/bin/ikhnos", "/bin/true").Replace(text)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		out, err := exec.CommandContext(t.Context(), program, "verify", "--man=no", path).CombinedOutput()
		require.NoError(t, err, "%s\n%s", out, text)
		assert.NotContains(t, string(out), name, "%s", text)
		out, err = exec.CommandContext(t.Context(), program, "security", "--offline=yes", "--no-pager", path).CombinedOutput()
		require.NoError(t, err, "%s", out)
		level := exposure.FindStringSubmatch(string(out))
		require.NotNil(t, level, "%s", out)
		assert.Less(t, level[1], "2.5", "%s", out)
	}
}
