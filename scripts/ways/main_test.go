package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/sql"
)

// A block takes part if each request ran it more often than any interval without a request.
func TestOnlyWhatEachRequestRunsTakesPart(t *testing.T) {
	t.Parallel()
	const (
		requested  = "pkg/a/a.go:1.2,3.4 1"
		background = "pkg/a/a.go:5.2,6.4 2"
		both       = "pkg/b/b.go:1.2,1.4 1"
		once       = "pkg/b/b.go:9.1,9.2 1"
	)
	parsed := func(counts map[string]string) map[block]int {
		text := "mode: atomic\n"
		for at, count := range counts {
			text += module + at + " " + count + "\n"
		}
		blocks, err := parseProfile(strings.NewReader(text))
		require.NoError(t, err)
		return blocks
	}
	idle, request := &sample{}, &sample{}
	idle.add(parsed(map[string]string{requested: "0", background: "3", both: "1"}), map[string]bool{"tick.sql": true})
	request.add(parsed(map[string]string{requested: "1", background: "3", both: "2", once: "1"}), map[string]bool{"pop.sql": true, "tick.sql": true})
	request.add(parsed(map[string]string{requested: "1", background: "2", both: "2"}), map[string]bool{"pop.sql": true})
	require.ElementsMatch(t, []block{
		{file: "pkg/a/a.go", first: 1, last: 3, columns: "2 4"}, {file: "pkg/b/b.go", first: 1, last: 1, columns: "2 4"},
	}, request.ranAlways(idle))
	require.Equal(t, map[string]bool{"pop.sql": true}, request.sentAlways(idle))

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
	require.Equal(t, map[string]bool{"sql/queries/engine/store/claim.sql": true}, sentStatements(strings.NewReader(log)))
}

func TestFunctionsAreFoundThroughOthers(t *testing.T) {
	t.Chdir("../..")
	files := map[string]bool{"sql/queries/engine/store/wake.sql": true}
	require.NoError(t, addFunctions(files))
	require.Contains(t, files, "sql/functions/wake/wake_partitions.sql")
	require.Contains(t, files, "sql/functions/wake/needs_wake.sql", "wake_partitions calls it")
	require.NotContains(t, files, "sql/functions/push/append.sql")
}

func TestTheLinesOfCodeThatRanAreCounted(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.MkdirAll("pkg/a", 0o700))
	require.NoError(t, os.WriteFile("pkg/a/a.go", []byte("package a\n\n// F does it.\nfunc F() {\n\t// why\n\tg()\n}\n"), 0o600))
	request := &sample{}
	request.add(map[block]int{
		{file: "pkg/a/a.go", first: 4, last: 7}:                    1,
		{file: "pkg/postgres/devdb/cluster.go", first: 1, last: 9}: 1,
	}, nil)
	w, err := newWay("pop", request, &sample{})
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
