package arch_test

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// floors gives every package its floor. A package imports only packages of lower floors, and packages inside its own
// folder that are on the same floor. A new package needs its line here.
var floors = map[string]int{
	"pkg/queue": 0, "pkg/check": 0, "pkg/process/logbuffer": 0, "pkg/process/inflight": 0, "pkg/dispatch/notify": 0, "pkg/process/backoff": 0, "pkg/testsignal": 0, "pkg/secret": 0, "pkg/engine/portable": 0, "pkg/access/certificate": 0, "pkg/access/identity": 0, "sql": 0,
	"pkg/httpapi/openapi": 0,

	"pkg/dashboard/chart": 0,

	"pkg/engine/seal": 1, "pkg/process/events": 1, "pkg/access/audit": 1, "pkg/engine/batch": 1, "pkg/dispatch/readiness": 1, "pkg/dispatch/plan": 1, "pkg/intent": 1, "pkg/postgres": 1, "pkg/postgres/devdb": 1, "pkg/access/token": 1, "pkg/dashboard/source": 1,

	"pkg/engine/store": 2, "pkg/postgres/listen": 2, "pkg/engine/catalog": 2, "pkg/access/auditlog": 2, "pkg/engine/owner": 2, "pkg/insight/explain": 2, "pkg/engine/queenimport": 2, "pkg/engine/stream": 2, "pkg/access/revocation": 2, "pkg/engine/maintenance": 2, "pkg/engine/spool": 2, "pkg/insight/history": 2, "pkg/engine/deadletter": 2, "pkg/insight/trace": 2, "pkg/engine/inbox": 2, "pkg/insight/stats": 2, "pkg/insight/problem": 2, "pkg/engine/sweep": 2, "pkg/engine/attach": 2, "pkg/postgres/migrate": 2, "pkg/engine/reseal": 2, "pkg/dashboard/page": 2,

	"pkg/dispatch": 3, "pkg/insight/doctor": 3, "pkg/insight/live": 3, "pkg/dispatch/sqlwait": 3, "pkg/httpapi/wire": 3, "pkg/cli/bench/load": 3, "pkg/dashboard/pages": 3,

	"pkg/httpapi": 4, "pkg/httpapi/dataplane": 4, "pkg/httpapi/adminplane": 4, "pkg/httpapi/historyplane": 4, "pkg/httpapi/liveplane": 4, "pkg/httpapi/listplane": 4, "pkg/httpapi/deadplane": 4, "pkg/httpapi/producerplane": 4, "pkg/httpapi/progressplane": 4, "pkg/dashboard": 4, "pkg/cli/bench": 4,

	"config": 5,

	"pkg/app": 6,

	"cmd/belfry": top,
}

// innerFloors gives the internal rooms of a room their floors within it. An internal room stands below
// its room and above all lower floors of the house, and is imported by its room and by the internal
// rooms on higher inner floors.
var innerFloors = map[string]int{
	"pkg/engine/store/internal/pipeline": 0, "pkg/engine/store/internal/scanfloor": 0,
	"pkg/engine/store/internal/contention": 0, "pkg/engine/store/internal/quota": 0, "pkg/engine/store/internal/delivered": 0,
	"pkg/engine/store/internal/groupcommit": 0,

	"pkg/engine/store/internal/wake":  1,
	"pkg/engine/store/internal/names": 2,

	"pkg/engine/store/internal/claim": 3, "pkg/engine/store/internal/ack": 3,

	"pkg/engine/store/internal/push":        4,
	"pkg/engine/store/internal/warm":        4,
	"pkg/engine/store/internal/transaction": 5,
}

// owner returns the room that an internal room belongs to, and any other room itself.
func owner(dir string) string {
	room, _, _ := strings.Cut(dir, "/internal/")
	return room
}

// top is the highest floor.
const top = 7

// client is the Go client. It imports no package of the server, and only commands, tests and scripts import it.
const client = "pkg/client"

// commandLine has the commands that speak to a server. Its packages import only the client and each other.
const commandLine = "pkg/cli"

// outside reports whether a package is for callers outside the server.
func outside(dir string) bool { return dir == client || below(dir, commandLine) }

// vague are names that do not describe the content.
var vague = []string{
	"util", "utils", "common", "helper", "helpers", "types", "models", "base", "core", "manager",
}

// beside reports whether a folder is outside of the floors: tests and scripts. It may import every package, and no
// package may import it.
func beside(dir string) bool {
	return strings.HasPrefix(dir, "test/") || strings.HasPrefix(dir, "scripts/")
}

// floorBreaches reports packages without a floor, and imports that do not go down. Test files may also import their own
// package, packages of the same floor, and packages outside of the floors.
func floorBreaches(files []source) []string {
	var complaints []string
	homeless := map[string]bool{}
	for _, file := range files {
		_, hasFloor := floors[file.dir]
		if _, hasInner := innerFloors[file.dir]; !hasFloor && !hasInner && !beside(file.dir) && !outside(file.dir) && !homeless[file.dir] {
			homeless[file.dir] = true
			complaints = append(complaints, fmt.Sprintf(
				"%s has no floor: decide what it may import and add it to the table in test/arch/floors_test.go", file.dir))
		}
		for _, imported := range file.imports {
			dir, ours := strings.CutPrefix(imported, module+"/")
			if !ours || homeless[file.dir] {
				continue
			}
			if reason := refuse(file, dir); reason != "" {
				complaints = append(complaints, fmt.Sprintf("%s imports %s: %s", file.path, dir, reason))
			}
		}
	}
	return complaints
}

// refuse returns why file may not import the package dir, or "".
func refuse(file source, dir string) string {
	if owner(file.dir) == owner(dir) && dir != owner(dir) {
		return refuseInner(file, dir)
	}
	from, to := floors[owner(file.dir)], floors[owner(dir)]
	switch {
	case beside(file.dir):
		return ""
	case file.test && (dir == file.dir || beside(dir)):
		return ""
	case beside(dir):
		return "code of the server imports no test helpers or scripts"
	case below(file.dir, commandLine) && outside(dir), outside(file.dir) && file.test:
		return ""
	case outside(file.dir):
		return "a package for callers outside the server imports nothing of the server"
	case outside(dir) && from != top:
		return "it is for callers outside the server"
	case outside(dir):
		return ""
	case dir == file.dir:
		return "a package does not import itself"
	case to > from:
		return fmt.Sprintf("floor %d imports only lower floors and that is floor %d: declare the interface where it is used", from, to)
	case to == from && !file.test && !strings.HasPrefix(dir, file.dir+"/"):
		return fmt.Sprintf("both are on floor %d: move what they share down or let a higher floor join them", from)
	}
	return ""
}

// refuseInner is refuse for an internal package of file's own package.
func refuseInner(file source, dir string) string {
	from, to := top, innerFloors[dir]
	if file.dir != owner(dir) {
		from = innerFloors[file.dir]
	}
	switch {
	case file.test && dir == file.dir:
		return ""
	case to >= from:
		return fmt.Sprintf("inner floor %d imports only lower inner floors and that is inner floor %d", from, to)
	}
	return ""
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

func TestPackagesImportOnlyLowerFloors(t *testing.T) {
	t.Parallel()
	holds(t, floorBreaches(repository(t)))
}

func TestNoPackageHasAVagueName(t *testing.T) {
	t.Parallel()
	holds(t, nameBreaches(repository(t)))
}

func TestFloorBreachesAreFound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file, imports string
		want          string // "" for an import that is fine
	}{
		{"pkg/engine/store/push.go", "pkg/queue", ""},
		{"pkg/engine/store/push.go", "pkg/postgres", ""},
		{"pkg/engine/store/push.go", "pkg/engine/catalog", "both are on floor 2"},
		{"pkg/engine/store/push.go", "pkg/dispatch", "that is floor 3"},
		{"pkg/engine/store/push.go", "pkg/engine/store", "does not import itself"},
		{"pkg/engine/store/push.go", "test/pgtest", "no test helpers"},
		{"pkg/engine/store/push.go", "scripts/load", "no test helpers"},
		{"pkg/engine/store/push.go", "pkg/client", "outside the server"},
		{"pkg/engine/store/push.go", "pkg/engine/store/internal/push", ""},
		{"pkg/engine/store/internal/push/call.go", "pkg/postgres", ""},
		{"pkg/engine/store/internal/push/call.go", "pkg/engine/catalog", "both are on floor 2"},
		{"pkg/engine/store/internal/push/call.go", "pkg/engine/store", "both are on floor 2"},
		{"pkg/engine/store/internal/push/call.go", "pkg/dispatch", "that is floor 3"},
		{"pkg/engine/store/internal/push/call.go", "pkg/engine/store/internal/claim", ""},
		{"pkg/engine/store/internal/claim/call.go", "pkg/engine/store/internal/push", "that is inner floor 4"},
		{"pkg/engine/store/internal/claim/call.go", "pkg/engine/store/internal/ack", "that is inner floor 3"},
		{"pkg/engine/store/internal/gate/gate.go", "pkg/queue", "has no floor"},
		{"pkg/engine/store/push_test.go", "pkg/engine/store", ""},
		{"pkg/engine/store/push_test.go", "pkg/engine/catalog", ""},
		{"pkg/engine/store/push_test.go", "test/pgtest", ""},
		{"pkg/engine/store/push_test.go", "pkg/httpapi", "that is floor 4"},
		{"pkg/queue/id.go", "sql", "both are on floor 0"},
		{"pkg/httpapi/routes.go", "pkg/httpapi/dataplane", ""},
		{"pkg/httpapi/dataplane/push.go", "pkg/httpapi/wire", ""},
		{"pkg/httpapi/dataplane/push.go", "pkg/httpapi", "both are on floor 4"},
		{"pkg/httpapi/dataplane/push.go", "pkg/httpapi/adminplane", "both are on floor 4"},
		{"pkg/client/client.go", "pkg/queue", "imports nothing of the server"},
		{"pkg/client/client_test.go", "pkg/app", ""},
		{"cmd/belfry/serve.go", "pkg/client", ""},
		{"cmd/belfry/root.go", "pkg/cli", ""},
		{"pkg/cli/push.go", "pkg/client", ""},
		{"pkg/cli/push.go", "pkg/cli/output", ""},
		{"pkg/cli/push.go", "pkg/queue", "imports nothing of the server"},
		{"pkg/client/client.go", "pkg/cli/output", "imports nothing of the server"},
		{"pkg/app/app.go", "pkg/cli", "outside the server"},
		{"cmd/belfry/serve.go", "pkg/app", ""},
		{"test/integration/pop.go", "pkg/app", ""},
		{"scripts/load/main.go", "pkg/client", ""},
		{"pkg/gate/gate.go", "pkg/queue", "pkg/gate has no floor"},
		{"cmd/other/main.go", "pkg/app", "cmd/other has no floor"},
	} {
		text := fmt.Sprintf("package %s\n\nimport _ %q\n", path.Base(path.Dir(c.file)), module+"/"+c.imports)
		complaints := floorBreaches([]source{sample(t, c.file, text)})
		if c.want == "" {
			require.Empty(t, complaints, "%s importing %s", c.file, c.imports)
			continue
		}
		require.Len(t, complaints, 1, "%s importing %s", c.file, c.imports)
		require.Contains(t, complaints[0], c.want)
	}
}

func TestExternalImportsHaveNoFloor(t *testing.T) {
	t.Parallel()
	file := sample(t, "pkg/queue/id.go", "package queue\n\nimport _ \"github.com/google/uuid\"\n")
	require.Empty(t, floorBreaches([]source{file}))
}

func TestVagueNamesAreFound(t *testing.T) {
	t.Parallel()
	require.Empty(t, nameBreaches([]source{sample(t, "pkg/queue/types.go", "package queue\n")}), "a file may have such a name")
	for name, text := range map[string]string{
		"pkg/util/a.go":                "package util\n",
		"pkg/engine/store/common/a.go": "package common\n",
		"pkg/core/push/a.go":           "package push\n",
		"pkg/push/a_test.go":           "package helpers_test\n",
	} {
		require.Len(t, nameBreaches([]source{sample(t, name, text)}), 1, name)
	}
}
