package arch_test

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// floors gives every room its floor. A room imports only rooms of lower floors.
// A new room gets its line here first.
var floors = map[string]int{
	"pkg/queue": 0, "pkg/notify": 0, "pkg/batch": 0, "pkg/backoff": 0, "pkg/testsignal": 0, "pkg/seal": 0, "sql": 0,
	"pkg/httpapi/openapi": 0,

	"pkg/events": 1, "pkg/plan": 1, "pkg/intent": 1, "pkg/listen": 1, "pkg/postgres": 1, "pkg/devdb": 1,

	"pkg/store": 2, "pkg/catalog": 2, "pkg/deadletter": 2, "pkg/trace": 2, "pkg/inbox": 2, "pkg/stats": 2, "pkg/sweep": 2, "pkg/attach": 2, "pkg/migrate": 2,

	"pkg/dispatch": 3, "pkg/bench/load": 3,

	"pkg/httpapi": 4, "pkg/dashboard": 4, "pkg/bench": 4,

	"config": 5,

	"pkg/app": 6,

	"cmd/belfry": top,
}

// top is the highest floor.
const top = 7

// client is the Go client. It stands outside: it imports nothing of ours, and
// of ours only commands and what is beside the house may import it.
const client = "pkg/client"

// vague are names that say nothing about what is inside.
var vague = []string{
	"util", "utils", "common", "helper", "helpers", "types", "models", "base", "core", "manager",
}

// beside says whether a folder stands beside the house: it may import every
// room, and no room may import it.
func beside(dir string) bool {
	return strings.HasPrefix(dir, "test/") || strings.HasPrefix(dir, "scripts/")
}

// floorBreaches complains about a room without a floor and about an import that
// does not go down. Test files may also look at their own room, at the rooms of
// the same floor and at what stands beside the house, but not up.
func floorBreaches(files []source) []string {
	var complaints []string
	homeless := map[string]bool{}
	for _, file := range files {
		if _, ok := floors[file.dir]; !ok && !beside(file.dir) && file.dir != client && !homeless[file.dir] {
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

// refuse says why file may not import the room dir, or returns "".
func refuse(file source, dir string) string {
	from, to := floors[file.dir], floors[dir]
	switch {
	case beside(file.dir):
		return ""
	case file.test && (dir == file.dir || beside(dir)):
		return ""
	case beside(dir):
		return "code of the server imports no test helpers or scripts"
	case file.dir == client && !file.test:
		return "the client is a leaf that imports nothing of the server"
	case file.dir == client:
		return ""
	case dir == client && from != top:
		return "the client is for callers outside the server"
	case dir == client:
		return ""
	case dir == file.dir:
		return "a room does not import itself"
	case to > from:
		return fmt.Sprintf("floor %d imports only lower floors and that is floor %d: declare the interface where it is used", from, to)
	case to == from && !file.test:
		return fmt.Sprintf("both are on floor %d: move what they share down or let a higher floor join them", from)
	}
	return ""
}

// nameBreaches complains about rooms whose name says nothing.
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

func TestARoomImportsOnlyLowerFloors(t *testing.T) {
	t.Parallel()
	holds(t, floorBreaches(repository(t)))
}

func TestNoRoomHasAVagueName(t *testing.T) {
	t.Parallel()
	holds(t, nameBreaches(repository(t)))
}

func TestFloorBreachesAreFound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file, imports string
		want          string // "" for an import that is fine
	}{
		{"pkg/store/push.go", "pkg/queue", ""},
		{"pkg/store/push.go", "pkg/postgres", ""},
		{"pkg/store/push.go", "pkg/catalog", "both are on floor 2"},
		{"pkg/store/push.go", "pkg/dispatch", "that is floor 3"},
		{"pkg/store/push.go", "pkg/store", "does not import itself"},
		{"pkg/store/push.go", "test/pgtest", "no test helpers"},
		{"pkg/store/push.go", "scripts/load", "no test helpers"},
		{"pkg/store/push.go", "pkg/client", "outside the server"},
		{"pkg/store/push_test.go", "pkg/store", ""},
		{"pkg/store/push_test.go", "pkg/catalog", ""},
		{"pkg/store/push_test.go", "test/pgtest", ""},
		{"pkg/store/push_test.go", "pkg/httpapi", "that is floor 4"},
		{"pkg/queue/id.go", "sql", "both are on floor 0"},
		{"pkg/client/client.go", "pkg/queue", "imports nothing of the server"},
		{"pkg/client/client_test.go", "pkg/app", ""},
		{"cmd/belfry/serve.go", "pkg/client", ""},
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

func TestImportsOfOthersHaveNoFloor(t *testing.T) {
	t.Parallel()
	file := sample(t, "pkg/queue/id.go", "package queue\n\nimport _ \"github.com/google/uuid\"\n")
	require.Empty(t, floorBreaches([]source{file}))
}

func TestVagueNamesAreFound(t *testing.T) {
	t.Parallel()
	require.Empty(t, nameBreaches([]source{sample(t, "pkg/queue/types.go", "package queue\n")}), "a file may be called so")
	for name, text := range map[string]string{
		"pkg/util/a.go":         "package util\n",
		"pkg/store/common/a.go": "package common\n",
		"pkg/core/push/a.go":    "package push\n",
		"pkg/push/a_test.go":    "package helpers_test\n",
	} {
		require.Len(t, nameBreaches([]source{sample(t, name, text)}), 1, name)
	}
}
