package arch_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// module is the path of this module in go.mod.
const module = "github.com/belfry-mq/belfry"

// root is the top of the repository, relative to this folder.
const root = "../.."

// source is one Go file of the repository.
type source struct {
	path    string // relative to the top of the repository, with slashes
	dir     string // path without the file name
	test    bool   // the name ends in _test.go
	pkg     string // the name in the package clause
	doc     string // the comment on the package clause
	lines   int
	imports []string
	syntax  *ast.File
	fset    *token.FileSet
}

// production reports whether the file can be part of the server or of a command.
func (s source) production() bool { return !s.test && !beside(s.dir) }

// at returns path:line of a node.
func (s source) at(n ast.Node) string {
	return s.path + ":" + strconv.Itoa(s.fset.Position(n.Pos()).Line)
}

// parse parses one file. name is its path relative to the top of the repository.
func parse(name, text string) (source, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return source{}, err
	}
	s := source{
		path: name, dir: path.Dir(name), test: strings.HasSuffix(name, "_test.go"), pkg: file.Name.Name,
		doc: file.Doc.Text(), lines: strings.Count(text, "\n"), syntax: file, fset: fset,
	}
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return source{}, err
		}
		s.imports = append(s.imports, imported)
	}
	return s, nil
}

// repository reads every Go file of the module. Like the go command, it ignores testdata and folders whose names start with
// a dot or an underscore.
func repository(t *testing.T) []source {
	t.Helper()
	var files []source
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := entry.Name()
		if entry.IsDir() {
			if name != root && (strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || base == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(base) != ".go" {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		file, err := parse(filepath.ToSlash(relative), string(text))
		if err != nil {
			return err
		}
		files = append(files, file)
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, len(files), 20, "the walk must find the Go files of the repository")
	return files
}

// holds fails the test with one line per complaint.
func holds(t *testing.T, complaints []string) {
	t.Helper()
	for _, complaint := range complaints {
		t.Error(complaint)
	}
}
