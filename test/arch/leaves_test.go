package arch_test

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// server is the package that `belfry serve` runs. The server is this package and every package that it imports.
const server = "pkg/app"

// clientModules are the modules that a program compiles because it imports the client. Of OpenTelemetry, they are the API without
// the SDK.
var clientModules = []string{
	"github.com/cespare/xxhash/v2", "github.com/go-json-experiment/json", "github.com/google/uuid", "go.opentelemetry.io/otel", "go.opentelemetry.io/otel/trace",
}

// apiTypes is the package of the requests and answers. The server and the client compile it.
const apiTypes = "pkg/client/api"

// toolsOnly lists packages that the server does not compile. Only other commands, tests and scripts need them. An entry
// includes the packages below it. A path belongs to this module if its first part has no dot.
var toolsOnly = []struct{ path, use string }{
	{"pkg/client", "the Go client, which the commands use; the server compiles only its package api"},
	{"pkg/cli", "the commands that speak to a server, and the example shop of belfry demo"},
	{"pkg/postgres/devdb", "the private Postgres of belfry dev and of tests"},
	{"pkg/engine/queenimport", "belfry import: copies from Queen MQ"},
	{"pkg/engine/reseal", "belfry reseal: encrypts stored messages with another key"},
	{"github.com/DataDog/sketches-go", "quantiles of the load generator"},
	{"github.com/fergusstrange/embedded-postgres", "the programs of the private Postgres"},
	{"github.com/spf13/cobra", "commands and flags"},
	{"charm.land/bubbletea", "the screen of belfry top"},
}

// compiled lists the packages that are compiled with the package dir, dir included. format is a template of go list. Empty
// lines and the standard library are left out.
func compiled(t *testing.T, dir, format string) []string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}"+format+"{{end}}", "./"+dir)
	list.Dir = root
	out, err := list.Output()
	require.NoError(t, err)
	lines := strings.Fields(string(out))
	slices.Sort(lines)
	return slices.Compact(lines)
}

// full returns the import path of an entry of toolsOnly.
func full(dir string) string {
	if first, _, _ := strings.Cut(dir, "/"); strings.Contains(first, ".") {
		return dir
	}
	return module + "/" + dir
}

// toolBreaches reports packages of toolsOnly among the packages that the server compiles.
func toolBreaches(packages []string) []string {
	var complaints []string
	for _, imported := range packages {
		for _, tool := range toolsOnly {
			if below(imported, full(tool.path)) && !below(imported, full(apiTypes)) {
				complaints = append(complaints, fmt.Sprintf(
					"the server compiles %s, which only tools need (%s): find the import with go list -deps ./%s", imported, tool.use, server))
			}
		}
	}
	return complaints
}

// exampleBreaches reports examples that import a package of this module other than the client and its types. Readers who
// copy an example cannot import other packages.
func exampleBreaches(files []source) []string {
	var complaints []string
	for _, file := range files {
		for _, imported := range file.imports {
			if below(file.dir, "examples") && below(imported, module) && !below(imported, full("pkg/client")) {
				complaints = append(complaints, fmt.Sprintf("%s imports %s: an example imports only the client", file.path, imported))
			}
		}
	}
	return complaints
}

func TestTheClientCompilesFewModules(t *testing.T) {
	t.Parallel()
	require.Equal(t, clientModules, slices.DeleteFunc(compiled(t, "pkg/client", "{{.Module.Path}}"), func(path string) bool { return path == module }))
	for _, imported := range compiled(t, "pkg/client", "{{.ImportPath}}") {
		require.True(t, !below(imported, module) || below(imported, full("pkg/client")), "the client compiles %s of the server", imported)
	}
}

func TestTheServerCompilesNoTools(t *testing.T) {
	t.Parallel()
	holds(t, toolBreaches(compiled(t, server, "{{.ImportPath}}")))
	commands := compiled(t, "cmd/belfry", "{{.ImportPath}}")
	for _, tool := range toolsOnly {
		require.True(t, slices.ContainsFunc(commands, func(imported string) bool { return below(imported, full(tool.path)) }),
			"no command compiles %s: remove it from the table, or correct its path", tool.path)
	}
}

func TestExamplesImportOnlyTheClient(t *testing.T) {
	t.Parallel()
	holds(t, exampleBreaches(repository(t)))
}
