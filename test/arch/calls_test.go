package arch_test

import (
	"go/ast"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// prints reports whether the file may write to standard output. Commands, scripts, examples and test/chaos may.
func prints(s source) bool {
	return strings.HasPrefix(s.dir, "cmd/") || strings.HasPrefix(s.dir, "scripts/") || strings.HasPrefix(s.dir, "examples/") || s.dir == "test/chaos"
}

// exits reports whether the file may end the process. Main packages and test/pgtest, which has the shared TestMain, may.
func exits(s source) bool { return s.pkg == "main" || s.dir == "test/pgtest" }

// callBreaches reports sleeps, skipped tests, and prints or exits outside of commands.
func callBreaches(files []source) []string {
	var complaints []string
	for _, file := range files {
		complaints = append(complaints, callsOf(file)...)
	}
	return complaints
}

func callsOf(file source) []string {
	names := localNames(file)
	var complaints []string
	complain := func(n ast.Node, text string) { complaints = append(complaints, file.at(n)+": "+text) }
	virtual := synctestBodies(file, names)
	ast.Inspect(file.syntax, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if name, ok := call.Fun.(*ast.Ident); ok && (name.Name == "print" || name.Name == "println") {
				complain(n, "the builtin "+name.Name+" is for debugging: remove it")
			}
			if selector, ok := call.Fun.(*ast.SelectorExpr); ok && (file.test || beside(file.dir)) && skips(selector.Sel.Name) {
				complain(n, selector.Sel.Name+" hides a test that does not run: let it run or fail")
			}
		}
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		left, ok := selector.X.(*ast.Ident)
		if !ok {
			return true
		}
		switch imported, name := names[left.Name], selector.Sel.Name; {
		case imported == "time" && name == "Sleep" && !inside(n, virtual):
			complain(n, "time.Sleep: wait for a signal, or for a timer together with a context")
		case imported == "fmt" && (name == "Print" || name == "Println" || name == "Printf") && !file.test && !prints(file):
			complain(n, "fmt."+name+": return it, log it, or take an io.Writer")
		case !file.test && !exits(file) && (imported == "os" && name == "Exit" || imported == "log" && strings.HasPrefix(name, "Fatal")):
			complain(n, imported+"."+name+": return an error, because only main may end the process")
		}
		return true
	})
	return complaints
}

func skips(name string) bool { return name == "Skip" || name == "Skipf" || name == "SkipNow" }

// localNames maps the names of a file's imports to import paths.
func localNames(file source) map[string]string {
	names := map[string]string{}
	for _, spec := range file.syntax.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // the parser accepted it, so this cannot happen
		}
		name := path.Base(imported)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = imported
	}
	return names
}

// synctestBodies returns the calls of synctest.Test. Inside them time is virtual, and time.Sleep moves the clock.
func synctestBodies(file source, names map[string]string) []ast.Node {
	var bodies []ast.Node
	ast.Inspect(file.syntax, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if selector, ok := call.Fun.(*ast.SelectorExpr); ok && selector.Sel.Name == "Test" {
			if left, ok := selector.X.(*ast.Ident); ok && names[left.Name] == "testing/synctest" {
				bodies = append(bodies, call)
			}
		}
		return true
	})
	return bodies
}

func inside(n ast.Node, outer []ast.Node) bool {
	return slices.ContainsFunc(outer, func(o ast.Node) bool { return o.Pos() <= n.Pos() && n.End() <= o.End() })
}

// dotBreaches reports dot imports. They hide the origin of a name from the reader and from the other rules.
func dotBreaches(files []source) []string {
	var complaints []string
	for _, file := range files {
		for _, spec := range file.syntax.Imports {
			if spec.Name != nil && spec.Name.Name == "." {
				complaints = append(complaints, file.at(spec)+": a dot import hides where a name comes from")
			}
		}
	}
	return complaints
}

func TestNoCodeSleepsSkipsPrintsOrExits(t *testing.T) {
	t.Parallel()
	files := repository(t)
	holds(t, callBreaches(files))
	holds(t, dotBreaches(files))
}
