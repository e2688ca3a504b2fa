// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// named are the events that the requirements name (requirements, index 2, and A-23).
var named = map[string]string{
	"operator-client-cert-reissued": OperatorClientCertReissued, // IS-10
	"operator-install-reissued":     OperatorInstallReissued,    // IN-13
	"operator-address-changed":      OperatorAddressChanged,     // AD-16
	"operator-heartbeat-enabled":    OperatorHeartbeatEnabled,   // HB-18
	"operator-heartbeat-rotated":    OperatorHeartbeatRotated,   // HB-18
	"operator-revoked":              OperatorRevoked,            // RV-3
	"operator-deleted":              OperatorDeleted,            // RV-3
	"operator-certificate-renewed":  OperatorCertificateRenewed,
}

// TestEveryEventIsRecorded: no event is a name alone; somebody beside the page that
// words it records it.
func TestEveryEventIsRecorded(t *testing.T) {
	for want, got := range named {
		assert.Equal(t, want, got)
	}
	var sources strings.Builder
	require.NoError(t, filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
			strings.HasPrefix(path, "../web/") || strings.HasPrefix(path, "../ledger/ledgertest/") {
			return err
		}
		text, err := os.ReadFile(path)
		sources.Write(text)
		sources.WriteByte('\n')
		return err
	}))
	words := strings.FieldsFunc(sources.String(), func(r rune) bool { return r != '.' && !isLetter(r) })
	used := map[string]bool{}
	for _, word := range words {
		used[word] = true
	}
	names := events(t)
	require.Greater(t, len(names), len(named))
	for name := range names {
		assert.True(t, used["audit."+name], "nothing records %s", name)
	}
}

func isLetter(r rune) bool { return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' }

// events are the constants of entry.go by name, each a value of its own.
func events(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "entry.go", nil, 0)
	require.NoError(t, err)
	all, seen := map[string]string{}, map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || spec.Names[0].Name == "ActorServer" {
			return true
		}
		value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		require.NoError(t, err)
		assert.False(t, seen[value], value)
		all[spec.Names[0].Name], seen[value] = value, true
		return true
	})
	return all
}
