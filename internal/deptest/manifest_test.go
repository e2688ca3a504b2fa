// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package deptest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"golang.org/x/mod/modfile"
)

type manifestEntry struct {
	GoMod  string `yaml:"gomod"`
	Import string `yaml:"import"`
	Path   string `yaml:"path"`
}

// TestManifestVersions compares builder-config.yaml with go.mod: ocb's own check
// is not reached when it only generates sources (case-50).
func TestManifestVersions(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	mod, err := modfile.Parse("go.mod", text, nil)
	require.NoError(t, err)
	required := map[string]string{}
	for _, r := range mod.Require {
		required[r.Mod.Path] = r.Mod.Version
	}

	entries := manifest(t)
	require.NotEmpty(t, entries)
	for _, e := range entries {
		path, version, ok := strings.Cut(e.GoMod, " ")
		require.True(t, ok, e.GoMod)
		if path == strings.TrimSuffix(module, "/") {
			assert.Equal(t, "v0.0.0", version, "%s: parts of this module carry one version", e.Import)
			assert.DirExists(t, filepath.Join(root, strings.TrimPrefix(e.Import, module)))
			continue
		}
		assert.Equal(t, required[path], version, "%s: manifest and go.mod differ", path)
		assert.Contains(t, []string{"v0.161.0", "v1.67.0"}, version, "%s is not of the pinned release", path)
	}
}

// TestCollectorModulesOnOneRelease: every collector module of the build is of the
// pinned release, but for those that docs/adr/0002 names.
func TestCollectorModulesOnOneRelease(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	mod, err := modfile.Parse("go.mod", text, nil)
	require.NoError(t, err)
	for _, r := range mod.Require {
		if strings.HasPrefix(r.Mod.Path, "go.opentelemetry.io/collector") ||
			strings.HasPrefix(r.Mod.Path, "github.com/open-telemetry/opentelemetry-collector-contrib") {
			assert.Contains(t, []string{"v0.161.0", "v1.67.0"}, r.Mod.Version, r.Mod.Path)
		}
	}
	adr, err := os.ReadFile(filepath.Join(root, "docs/adr/0002-collector-release.md"))
	require.NoError(t, err)
	for _, r := range mod.Replace {
		assert.Equal(t, r.Old.Path, r.New.Path, "only an older version may stand in")
		assert.Contains(t, string(adr), r.New.Path+" "+r.New.Version, "the ADR does not name this replacement")
	}
}

func manifest(t *testing.T) []manifestEntry {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "builder-config.yaml"))
	require.NoError(t, err)
	var sections map[string]yaml.Node
	require.NoError(t, yaml.Unmarshal(text, &sections))
	var all []manifestEntry
	for name, node := range sections {
		if name == "dist" {
			continue
		}
		var entries []manifestEntry
		require.NoError(t, node.Decode(&entries), name)
		all = append(all, entries...)
	}
	return all
}
