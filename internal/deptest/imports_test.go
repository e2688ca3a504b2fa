// Copyright The Continuum Authors
// SPDX-License-Identifier: Apache-2.0

package deptest

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

const module = "github.com/ikhnos/continuum/"

// rule says what the files below a folder may not import. Own packages are named
// without the module's path; a name stands for itself and all below it.
type rule struct {
	folder    string
	allowOwn  []string // nil: any of ours but deny
	deny      []string // of ours or from outside
	withTests bool     // test files obey too
}

// The table of docs/architecture.md, one row a rule.
var rules = []rule{
	{folder: "components", allowOwn: []string{"internal", "SELF"}, withTests: true},
	{folder: "internal", allowOwn: []string{"internal"}, withTests: true},
	{folder: "internal/controlapi", allowOwn: []string{}, deny: []string{"OUTSIDE"}},
	{folder: "control/api", deny: []string{"components", "modernc.org/sqlite", "github.com/jackc/pgx"}},
	{folder: "control/pki", allowOwn: []string{"internal", "control/pki"}, deny: []string{"net/http", "database/sql"}},
	{folder: "control/ledger", allowOwn: []string{"control/audit", "control/ledger"}},
	// BD-9: what prints commands can run none.
	{folder: "control/install", allowOwn: []string{"control/install", "control/operators", "distributions", "internal"}, deny: []string{"os", "net/http", "database/sql"}},
	{folder: "control", deny: []string{"components"}},
}

// TestImportTable is the import table as a test (issue item 1, design 3).
func TestImportTable(t *testing.T) {
	files := goFiles(t)
	for _, r := range rules {
		t.Run(r.folder, func(t *testing.T) {
			for _, f := range files {
				if !below(f.path, r.folder) || strings.HasSuffix(f.path, "_test.go") && !r.withTests {
					continue
				}
				for _, imported := range f.imports() {
					assert.NoError(t, r.check(f.path, imported), f.path)
				}
			}
		})
	}
}

// TestImportTableBites proves that the rules refuse what they name.
func TestImportTableBites(t *testing.T) {
	for name, tc := range map[string]struct{ folder, file, imported string }{
		"component imports the server":      {"components", "components/extension/heartbeat/x.go", module + "control/api"},
		"component imports another":         {"components", "components/extension/heartbeat/x.go", module + "components/extension/ikhnosrenew"},
		"internal imports the server":       {"internal", "internal/identity/x.go", module + "control/pki"},
		"wire types import a library":       {"internal/controlapi", "internal/controlapi/x.go", "github.com/spf13/cobra"},
		"signer imports the ledger":         {"control/pki", "control/pki/x.go", module + "control/ledger"},
		"signer imports net/http":           {"control/pki", "control/pki/x.go", "net/http"},
		"ledger imports the signer":         {"control/ledger", "control/ledger/x.go", module + "control/pki"},
		"API imports a database driver":     {"control/api", "control/api/x.go", "modernc.org/sqlite"},
		"the server imports a component":    {"control", "control/cli/x.go", module + "components/extension/ikhnosrenew"},
		"the printer runs a program":        {"control/install", "control/install/x.go", "os/exec"},
		"the printer imports the API":       {"control/install", "control/install/x.go", module + "control/api"},
		"ledger imports something internal": {"control/ledger", "control/ledger/x.go", module + "internal/controlapi"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, r := range rules {
				if r.folder == tc.folder {
					require.Error(t, r.check(tc.file, tc.imported))
				}
			}
		})
	}
}

func (r rule) check(file, imported string) error {
	own, isOwn := strings.CutPrefix(imported, module)
	for _, d := range r.deny {
		outside := d == "OUTSIDE" && strings.Contains(strings.SplitN(imported, "/", 2)[0], ".")
		if below(own, d) || outside {
			return importError(file + " may not import " + imported)
		}
	}
	if !isOwn || r.allowOwn == nil {
		return nil
	}
	for _, a := range r.allowOwn {
		if a == "SELF" { // the component's own folder, generated packages included
			a = strings.Join(strings.SplitN(file, "/", 4)[:3], "/")
		}
		if below(own, a) {
			return nil
		}
	}
	return importError(file + " may not import " + imported)
}

type importError string

func (e importError) Error() string { return string(e) }

func below(path, folder string) bool { return path == folder || strings.HasPrefix(path, folder+"/") }

// clockless lists where logic must be given the time instead of reading it.
var clockless = []string{"control", "internal/renewal", "internal/identity", "internal/certfile", "internal/holderproof"}

// TestNoClockInLogic keeps time.Now, Since and Until out of logic: a clock comes
// in as a value. Wiring may name time.Now as a function, not call it.
func TestNoClockInLogic(t *testing.T) {
	for _, f := range goFiles(t) {
		in := false
		for _, folder := range clockless {
			in = in || below(f.path, folder)
		}
		if !in || strings.HasSuffix(f.path, "_test.go") {
			continue
		}
		ast.Inspect(f.tree, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok {
				if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == "time" {
					switch sel.Sel.Name {
					case "Now", "Since", "Until":
						t.Errorf("%s calls time.%s: take a clock instead", f.set.Position(call.Pos()), sel.Sel.Name)
					}
				}
			}
			return true
		})
	}
}

// TestLicenceHeader: every file that people wrote says whose it is.
func TestLicenceHeader(t *testing.T) {
	const header = "// Copyright The Continuum Authors\n// SPDX-License-Identifier: Apache-2.0\n"
	for _, f := range goFiles(t) {
		text, err := os.ReadFile(filepath.Join(root, f.path))
		require.NoError(t, err)
		if ast.IsGenerated(f.tree) {
			continue
		}
		assert.True(t, strings.HasPrefix(string(text), header), "%s does not open with the licence header", f.path)
	}
}

const root = "../.."

type file struct {
	path string // slash-separated, from the root of the repository
	set  *token.FileSet
	tree *ast.File
}

func (f file) imports() []string {
	var paths []string
	for _, spec := range f.tree.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err == nil {
			paths = append(paths, path)
		}
	}
	return paths
}

// goFiles parses every Go file of the main module.
func goFiles(t *testing.T) []file {
	t.Helper()
	var files []file
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if entry.IsDir() {
			if rel == "tools" || strings.HasPrefix(entry.Name(), ".") && rel != "." {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(rel, ".go") {
			return nil
		}
		set := token.NewFileSet()
		tree, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		files = append(files, file{path: rel, set: set, tree: tree})
		return nil
	})
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return files
}
