// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// spoil opens every file that the blocks wrote to everybody.
var spoil = Block{File: "spoil.sh", Text: "find . -path ./bin -prune -o -type f -exec chmod 0666 {} +\n"}

// Every other format's commands: every file with its content and mode, and what is
// called, in both shells, twice, the second time over files with other modes.
func TestFileBlocks(t *testing.T) {
	onOperator := map[string]string{"etc/continuum/op-eu/receiver-token": receiver, "etc/continuum/op-eu/export-token": export, "etc/continuum/op-eu/heartbeat": heartbeat}
	tests := map[string]struct {
		blocks  []Block
		secrets map[string]string // path to content, without its last line feed
		config  string            // path of the configuration, if one is written
		unit    bool
		last    []string // words of the last call
	}{
		"new heartbeat process": {regional().HeartbeatBlocks(Process), map[string]string{"etc/continuum/op-eu/heartbeat": heartbeat}, "", false,
			[]string{"install", "-d", "-m", "0700", "/etc/continuum/op-eu"}},
		"new heartbeat systemd": {regional().HeartbeatBlocks(Systemd), map[string]string{"etc/continuum/op-eu/heartbeat": heartbeat}, "", false,
			[]string{"systemctl", "restart", "continuum-op-eu.service"}}, // HB-17
		"regional process": {regional().Blocks(Process), onOperator, "", false,
			[]string{"continuum-collector", "--config", "distributions/regional/config.yaml", "--set", "service.extensions=[health_check, file_storage, ikhnosrenew, certnameauth, heartbeat]"}},
		"continuum sender process": {sender(Continuum).Blocks(Process), map[string]string{"run/secrets/continuum/c9/export-token": export}, "", false,
			[]string{"continuum-collector", "--config", "distributions/cluster/config.yaml"}},
		"stock sender process": {sender(Stock).Blocks(Process), nil, "", false,
			[]string{"ikhnos", "renew", "--server", theServer.URL, "--ca-pin", theServer.Pins[0], "--dir", "/var/lib/continuum/c9/op-eu", "--watch"}},
		"regional config": {regional().Blocks(Config), onOperator, "", false, []string{"install", "-d", "-m", "0700", "/etc/continuum/op-eu"}},
		"regional systemd": {regional().Blocks(Systemd), onOperator, "etc/continuum/op-eu.yaml", true,
			[]string{"systemctl", "restart", "continuum-op-eu.service"}},
		"central systemd": {central().Blocks(Systemd), map[string]string{"etc/continuum/op-central/receiver-token": receiver, "etc/continuum/op-central/heartbeat": heartbeat},
			"etc/continuum/op-central.yaml", true, []string{"systemctl", "restart", "continuum-op-central.service"}},
		"stock sender systemd": {sender(Stock).Blocks(Systemd), nil, "", true,
			[]string{"systemctl", "restart", "ikhnos-renew-c9-op-eu.service"}},
		"continuum sender systemd": {sender(Continuum).Blocks(Systemd), map[string]string{"etc/continuum/c9/export-token": export}, "etc/continuum/c9.yaml", true,
			[]string{"systemctl", "restart", "continuum-c9.service"}},
	}
	for name, tt := range tests {
		for _, shell := range shells {
			t.Run(name+" in "+shell, func(t *testing.T) {
				root, calls := recorded(t, shell, slices.Concat(tt.blocks, []Block{spoil}, tt.blocks))
				assert.Equal(t, below(root, strings.Join(tt.last, "\x00")), strings.Join(calls[len(calls)-1].Args, "\x00"))
				for _, c := range calls {
					for _, secret := range []string{receiver, export, heartbeat} {
						assert.NotContains(t, strings.Join(c.Args, " "), secret)
					}
				}
				want := map[string]written{}
				for path, secret := range tt.secrets {
					want[path] = written{0o600, secret + "\n"}
				}
				if tt.config != "" {
					want[tt.config] = written{0o644, below(root, configOf(t, tt.blocks))}
				}
				if tt.unit {
					unit, text := unitOf(t, tt.blocks)
					want["etc/systemd/system/"+unit] = written{0o644, below(root, text)}
				}
				assert.Equal(t, want, writtenBelow(t, root))
				assert.ElementsMatch(t, modesOf(root, want, 2), modesBefore(t, root))
			})
		}
	}
}

// written is a file that blocks wrote.
type written struct {
	Mode    os.FileMode
	Content string
}

// writtenBelow are all files below the folders that blocks write to.
func writtenBelow(t *testing.T, root string) map[string]written {
	t.Helper()
	files := map[string]written{}
	require.NoError(t, fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(path, "/") || strings.HasPrefix(path, "bin/") {
			return err
		}
		info, err := d.Info()
		require.NoError(t, err)
		text, err := os.ReadFile(filepath.Join(root, path))
		files[path] = written{info.Mode(), string(text)}
		return err
	}))
	return files
}

// modesOf is what catRecorder notes when each file is written so many times.
func modesOf(root string, files map[string]written, times int) (lines []string) {
	for path, file := range files {
		line := fmt.Sprintf("%o %s", file.Mode, filepath.Join(root, path))
		lines = append(lines, slices.Repeat([]string{line}, times)...)
	}
	return lines
}

// modesBefore is what catRecorder noted.
func modesBefore(t *testing.T, root string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "calls.modes"))
	if !errors.Is(err, fs.ErrNotExist) {
		require.NoError(t, err)
	}
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
}
