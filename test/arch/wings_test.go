package arch_test

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// wing is a folder of packages that serve one purpose.
type wing struct {
	folder string
	// imports lists the other wings that packages of this wing may import. Tests may import every package.
	imports string
	// rooms lists the packages of the wing by folder, in layers. "." is the folder of the wing. The character > separates
	// two layers. A package may import packages of the layers after its own, but no package of its own layer.
	rooms string
}

// wings lists the packages of the repository, from the command down to the SQL text. A new package must be added here.
var wings = []wing{
	{"cmd", "pkg/app config pkg/cli pkg/cli/bench pkg/client pkg/client/api pkg/httpapi pkg/insight pkg/engine pkg/access pkg/postgres pkg/process pkg/queue config/setting", "belfry"},
	{"pkg/app", "config pkg/client/api pkg/dashboard pkg/httpapi pkg/insight pkg/dispatch pkg/engine pkg/access pkg/postgres pkg/process pkg/queue config/setting", "."},
	{"config", "pkg/dashboard pkg/httpapi pkg/insight pkg/dispatch pkg/engine pkg/access pkg/postgres pkg/queue config/setting", "."},
	{"pkg/dashboard", "pkg/client/api pkg/access pkg/process pkg/queue", ". > pages > changes listing schedules > page > chart source"},
	{"pkg/cli/bench", "pkg/client/api pkg/access pkg/postgres", ". > load plan"}, // the load generator connects to Postgres for a comparison
	{"pkg/cli", "pkg/client pkg/client/api", `. > noun > verb > session >
		answer manifest pusher top >
		contexts demo instant outage output payload progress request`},
	{"pkg/client", "pkg/client/api", ". > limits reach schedules spans"},
	{"pkg/client/api", "", "sheet > ."}, // the requests and answers, which the server uses too
	{"pkg/httpapi", "pkg/client/api pkg/insight pkg/dispatch pkg/engine pkg/access pkg/process pkg/queue config/setting", `. >
		data flow operate queen repair schedules spans > deadletters > observe > lists >
		openapi wire`},
	{"pkg/insight", "pkg/client/api pkg/engine pkg/access pkg/postgres pkg/process pkg/queue config/setting sql", "doctor explain live problem stats trace > history totals"},
	{"pkg/dispatch", "pkg/process pkg/queue config/setting", ". sqlwait > readiness > notify plan"},
	{"pkg/engine", "pkg/access pkg/postgres pkg/process pkg/queue config/setting sql", `
		redrivejob store >
		store/internal/transaction store/internal/warm >
		store/internal/push >
		store/internal/ack store/internal/claim >
		store/internal/names >
		store/internal/groupcommit store/internal/wake catalog deadletter inbox queenimport reseal schedule spool >
		store/internal/delivered store/internal/pipeline store/internal/quota store/internal/scanfloor
		attach batch limit maintenance portable schedule/when seal stream sweep`},
	{"pkg/access", "pkg/postgres pkg/process pkg/queue config/setting sql", "provider rights > token > audit > certificate identity"},
	{"pkg/postgres", "pkg/process pkg/queue config/setting sql", "listen migrate > . devdb"},
	{"pkg/process", "pkg/queue", "inflight > backoff events heap logbuffer tracing"},
	{"pkg/queue", "", "."},
	{"config/setting", "", "."},
	{"sql", "", "."},
}

// maxEntries is the limit for the folders in pkg.
const maxEntries = 12

// room is the position of a package in the table.
type room struct {
	wing  int // the index of its wing in wings
	layer int // the layer within the wing; 0 is the top
}

// rooms returns the position of each package.
func rooms() map[string]room {
	found := map[string]room{}
	for line, w := range wings {
		for layer, names := range strings.Split(w.rooms, ">") {
			for _, name := range strings.Fields(names) {
				found[path.Join(w.folder, name)] = room{line, layer}
			}
		}
	}
	return found
}

// vague lists names that do not describe the content of a package.
var vague = []string{
	"util", "utils", "common", "helper", "helpers", "types", "models", "base", "core", "manager",
}

// beside reports whether a folder has tests, scripts or examples. Such a folder may import every package. No other package
// may import it.
func beside(dir string) bool {
	return strings.HasPrefix(dir, "test/") || strings.HasPrefix(dir, "scripts/") || strings.HasPrefix(dir, "examples/")
}

// wingBreaches reports packages that are not in the table, and imports that the table does not allow.
func wingBreaches(files []source) []string {
	var complaints []string
	places, homeless := rooms(), map[string]bool{}
	for _, file := range files {
		if _, ok := places[file.dir]; !ok && !beside(file.dir) && !isDoc(file) {
			if !homeless[file.dir] {
				complaints = append(complaints, file.dir+" is not in the table of test/arch/wings_test.go: decide what it may import and add it")
			}
			homeless[file.dir] = true
			continue
		}
		for _, imported := range file.imports {
			dir, ours := strings.CutPrefix(imported, module+"/")
			if !ours || beside(file.dir) {
				continue
			}
			if reason := refuse(places, file, dir); reason != "" {
				complaints = append(complaints, fmt.Sprintf("%s imports %s: %s", file.path, dir, reason))
			}
		}
	}
	return complaints
}

// isDoc reports whether a file has only the doc of its wing.
func isDoc(file source) bool {
	return path.Base(file.path) == "doc.go" && len(file.imports) == 0 &&
		slices.ContainsFunc(wings, func(w wing) bool { return w.folder == file.dir })
}

// refuse returns why file may not import the package dir, or "".
func refuse(places map[string]room, file source, dir string) string {
	from, to := places[file.dir], places[dir]
	if file.test {
		return ""
	}
	if beside(dir) {
		return "code of the server imports no test helpers or scripts"
	}
	if _, ok := places[dir]; !ok {
		return "it is not in the table of test/arch/wings_test.go"
	}
	switch w := wings[from.wing]; {
	case to.wing != from.wing && !slices.Contains(strings.Fields(w.imports), wings[to.wing].folder):
		return fmt.Sprintf("%s imports only %s: declare the interface where it is used", w.folder, orNothing(w.imports))
	case to.wing == from.wing && to.layer <= from.layer:
		return fmt.Sprintf("in %s the imported package is not below the importing one: move the shared code to a lower package, or let a higher package connect the two", w.folder)
	}
	return ""
}

func orNothing(imports string) string {
	if imports == "" {
		return "packages outside of Belfry"
	}
	return strings.Join(strings.Fields(imports), ", ")
}

// nameBreaches reports packages with a vague name.
func nameBreaches(files []source) []string {
	var complaints []string
	for _, file := range files {
		for _, name := range append(strings.Split(file.dir, "/"), strings.TrimSuffix(file.pkg, "_test")) {
			if slices.Contains(vague, name) {
				complaints = append(complaints, fmt.Sprintf(
					"%s: the name %q does not say what is inside: name it after what it does", file.path, name))
				break
			}
		}
	}
	return complaints
}

func TestPackagesImportOnlyWhatTheirWingMay(t *testing.T) {
	t.Parallel()
	holds(t, wingBreaches(repository(t)))
}

// A reader who opens the folder pkg for the first time should see few names.
func TestPkgHasFewEntries(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir(filepath.Join(root, "pkg"))
	require.NoError(t, err)
	require.LessOrEqual(t, len(entries), maxEntries)
	for _, entry := range entries {
		require.True(t, slices.ContainsFunc(wings, func(w wing) bool { return w.folder == "pkg/"+entry.Name() }), entry.Name())
		text, err := os.ReadFile(filepath.Join(root, "pkg", entry.Name(), "doc.go"))
		require.NoError(t, err)
		require.Contains(t, string(text), "// Package "+entry.Name()+" ")
	}
}

func TestNoPackageHasAVagueName(t *testing.T) {
	t.Parallel()
	holds(t, nameBreaches(repository(t)))
}
