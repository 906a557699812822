package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/sql"
)

// A block takes part if the intervals with the request ran it more often than the intervals without a request. One
// interval of each kind may be an exception.
func TestOnlyBlocksOfTheRequestsTakePart(t *testing.T) {
	t.Parallel()
	const (
		requested  = "pkg/a/a.go:1.2,3.4 1"
		background = "pkg/a/a.go:5.2,6.4 2"
		both       = "pkg/b/b.go:1.2,1.4 1"
		once       = "pkg/b/b.go:9.1,9.2 1"
	)
	parsed := func(requestedRan, backgroundRan, bothRan, onceRan int) map[block]int {
		text := "mode: atomic\n"
		for at, count := range map[string]int{requested: requestedRan, background: backgroundRan, both: bothRan, once: onceRan} {
			text += fmt.Sprintf("%s%s %d\n", module, at, count)
		}
		blocks, err := parseProfile(strings.NewReader(text))
		require.NoError(t, err)
		return blocks
	}
	idle := []map[block]int{parsed(0, 3, 1, 0), parsed(0, 3, 5, 0), parsed(0, 3, 1, 0)}
	requests := []map[block]int{parsed(1, 3, 2, 0), parsed(1, 9, 2, 1), parsed(0, 3, 2, 0)}
	require.ElementsMatch(t, []block{
		{file: "pkg/a/a.go", first: 1, last: 3, columns: "2 4"}, {file: "pkg/b/b.go", first: 1, last: 1, columns: "2 4"},
	}, takesPart(requests, idle))

	_, err := parseProfile(strings.NewReader("pkg/a/a.go:1\n"))
	require.ErrorContains(t, err, "pkg/a/a.go:1")
}

func TestStatementsOfTheOtherServerDoNotCount(t *testing.T) {
	t.Parallel()
	logged := func(role, query string) string {
		return role + "|LOG:  execute stmtcache_1: " + strings.ReplaceAll(strings.TrimSpace(sql.Query(query)), "\n", "\n\t") + "\n" +
			role + "|DETAIL:  parameters: $1 = 'a: b'\n"
	}
	log := logged("postgres", "engine/store/claim") + logged(otherRole, "engine/store/append") + "postgres|LOG:  statement: begin\n"
	require.Equal(t, map[string]int{"sql/queries/engine/store/claim.sql": 1}, sentStatements(strings.NewReader(log)))
}

func TestFunctionsAreFoundThroughOthers(t *testing.T) {
	t.Chdir("../..")
	files := map[string]bool{"sql/queries/engine/store/wake.sql": true}
	require.NoError(t, addFunctions(files))
	require.Contains(t, files, "sql/functions/wake/wake_partitions.sql")
	require.Contains(t, files, "sql/functions/wake/needs_wake.sql", "wake_partitions calls it")
	require.NotContains(t, files, "sql/functions/push/append.sql")
}

func TestExecutedLinesAreCounted(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.MkdirAll("pkg/a", 0o700))
	require.NoError(t, os.WriteFile("pkg/a/a.go", []byte("package a\n\n// F does it.\nfunc F() {\n\t// why\n\tg()\n}\n"), 0o600))
	requests, idle := &sample{}, &sample{}
	for range 2 {
		requests.add(map[block]int{
			{file: "pkg/a/a.go", first: 4, last: 7}:          1,
			{file: "scripts/ways/way.go", first: 1, last: 9}: 1,
		}, nil)
		idle.add(nil, nil)
	}
	w, err := newWay("pop", requests, idle)
	require.NoError(t, err)
	for files, want := range map[bool]string{
		false: "pop: 1 Go files (7 lines, of which 3 ran) and 0 SQL files\n  pkg/a  1 files, 3 lines ran\n\n",
		true:  "pop: 1 Go files (7 lines, of which 3 ran) and 0 SQL files\n  pkg/a/a.go  3 of 7 lines\n\n",
	} {
		var out bytes.Buffer
		require.NoError(t, w.print(&out, files))
		require.Equal(t, want, out.String())
	}
}
