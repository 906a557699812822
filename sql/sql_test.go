package sql_test

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/sql"
)

func TestQueryReturnsTheFile(t *testing.T) {
	t.Parallel()
	require.Contains(t, sql.Names(), "engine/store/claim")
	for _, name := range sql.Names() {
		want, err := os.ReadFile("queries/" + name + ".sql")
		require.NoError(t, err)
		require.NotEmpty(t, strings.TrimSpace(string(want)), "%s is empty", name)
		require.Equal(t, string(want), sql.Query(name))
	}
}

func TestQueryPanicsOnAnUnknownName(t *testing.T) {
	t.Parallel()
	defer func() {
		require.Contains(t, recover(), "sql/queries/no_such_query.sql")
	}()
	sql.Query("no_such_query")
	t.Fatal("Query returned for a name that has no file")
}

// pkg/postgres/migrate runs a migration and the record of its version in one
// transaction. So a migration file must not begin or end a transaction.
func TestMigrationsLeaveTransactionsAlone(t *testing.T) {
	t.Parallel()
	control := regexp.MustCompile(`(?im)^\s*(begin|start transaction|commit|rollback|end)\b[^;]*;`)
	files, err := fs.Glob(sql.Migrations, "migrations/*.sql")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, path := range files {
		text, err := fs.ReadFile(sql.Migrations, path)
		require.NoError(t, err)
		outside := withoutBodies(string(text))
		require.Empty(t, control.FindString(outside), "%s begins or ends a transaction", path)
		require.NotRegexp(t, `(?i)\bconcurrently\b`, outside, "%s cannot run inside a transaction", path)
	}
}

// withoutBodies returns text without its dollar-quoted strings, which may contain
// other dollar quotes.
func withoutBodies(text string) string {
	quote := regexp.MustCompile(`\$\w*\$`)
	var outside strings.Builder
	for {
		at := quote.FindStringIndex(text)
		if at == nil {
			return outside.String() + text
		}
		tag, rest := text[at[0]:at[1]], text[at[1]:]
		outside.WriteString(text[:at[0]] + "''")
		_, text, _ = strings.Cut(rest, tag)
	}
}

func TestDollarQuotesNest(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a '' b '' c", withoutBodies("a $$x $t$ BEGIN; $t$ y$$ b $q$END; $$ $q$ c"))
	require.Equal(t, "COMMIT;", withoutBodies("COMMIT;"))
}
