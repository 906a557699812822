package arch_test

import (
	"fmt"
	"go/ast"
	"slices"
	"testing"
)

const (
	// maxFunctionLines is the largest number of lines of a function of the server.
	maxFunctionLines = 60
	// maxParameters is the largest number of parameters of a function of the server. A receiver is not counted.
	maxParameters = 5
	// maxRoomLines is the largest number of lines of Go in a package of the server, without its tests.
	maxRoomLines = 2500
	// apiDir has the types of all requests and answers, and nearly no functions. Nobody reads it from beginning to end, so its limit
	// is maxAPILines.
	apiDir, maxAPILines = "pkg/client/api", 3500
)

// functionBreaches complains about functions with too many lines or parameters.
func functionBreaches(files []source) []string {
	var complaints []string
	for _, file := range files {
		if !file.production() {
			continue
		}
		for _, decl := range file.syntax.Decls {
			function, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if lines := file.fset.Position(function.End()).Line - file.fset.Position(function.Pos()).Line + 1; lines > maxFunctionLines {
				complaints = append(complaints, fmt.Sprintf("%s: %s has %d lines, the limit is %d: split it into one function per step",
					file.at(function), function.Name.Name, lines, maxFunctionLines))
			}
			if n := function.Type.Params.NumFields(); n > maxParameters {
				complaints = append(complaints, fmt.Sprintf("%s: %s has %d parameters, the limit is %d: put related parameters into a struct",
					file.at(function), function.Name.Name, n, maxParameters))
			}
		}
	}
	return complaints
}

// roomBreaches complains about packages with too many lines.
func roomBreaches(files []source) []string {
	lines := map[string]int{}
	for _, file := range files {
		if file.production() {
			lines[file.dir] += file.lines
		}
	}
	var complaints []string
	for dir, n := range lines {
		limit := maxRoomLines
		if dir == apiDir {
			limit = maxAPILines
		}
		if n > limit {
			complaints = append(complaints, fmt.Sprintf("%s has %d lines of Go, the limit is %d: split it into several packages", dir, n, limit))
		}
	}
	slices.Sort(complaints)
	return complaints
}

func TestFunctionsAreShort(t *testing.T) {
	t.Parallel()
	holds(t, functionBreaches(repository(t)))
}

func TestPackagesAreSmall(t *testing.T) {
	t.Parallel()
	holds(t, roomBreaches(repository(t)))
}
