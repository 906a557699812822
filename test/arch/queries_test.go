package arch_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/pgtest"
)

// minOpening is the least number of characters in the opening comment of a query.
const minOpening = 20

// prepareTimeout limits the time of all PREPAREs together.
const prepareTimeout = time.Minute

var (
	// notCode matches the parts of a statement that are not code: literals, quoted names, dollar quotes and comments. The
	// match that starts first wins, as in Postgres.
	notCode = regexp.MustCompile(`(?s)'(?:[^']|'')*'|"(?:[^"]|"")*"|\$\$.*?\$\$|--[^\n]*|/\*.*?\*/`)
	// star matches a "*" that stands for all columns. It follows SELECT, RETURNING, a comma or a dot. So count(*) and
	// products do not match.
	star = regexp.MustCompile(`(?i)(?:\b(?:select|returning|distinct|all)\b|,|\.)\s*\*`)
)

// queryFiles reads sql/queries. It maps "wing/package/name.sql" to the text.
func queryFiles(t *testing.T) map[string]string {
	t.Helper()
	folder, queries := filepath.Join(root, "sql", "queries"), map[string]string{}
	err := filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		name, err = filepath.Rel(folder, name)
		queries[filepath.ToSlash(name)] = string(text)
		return err
	})
	require.NoError(t, err)
	require.NotEmpty(t, queries)
	return queries
}

// queryBreaches complains about a query file that breaks a rule. A file has one statement, opens with a comment that says
// what the statement does, and lists its columns.
func queryBreaches(name, text string) []string {
	var complaints []string
	complain := func(format string, args ...any) {
		complaints = append(complaints, "sql/queries/"+name+": "+fmt.Sprintf(format, args...))
	}
	if !regexp.MustCompile(`^[a-z]+(/[a-z]+)?/[a-z0-9]+(_[a-z0-9]+)*\.sql$`).MatchString(name) {
		complain("call it wing/package/some_name.sql")
	}
	opening, _, _ := strings.Cut(text, "\n")
	if !strings.HasPrefix(opening, "-- ") || len(opening) < minOpening {
		complain("it does not open with a comment that says what the statement does")
	}
	code := strings.TrimSpace(notCode.ReplaceAllString(text, " "))
	code = strings.TrimSpace(strings.TrimSuffix(code, ";"))
	if code == "" {
		complain("it contains no statement")
	}
	if strings.Contains(code, ";") {
		complain("it contains more than one statement: write each into its own file")
	}
	if found := star.FindString(code); found != "" {
		complain("list the columns instead of %q", strings.Join(strings.Fields(found), " "))
	}
	return complaints
}

func TestQueriesAreOneStatementEach(t *testing.T) {
	t.Parallel()
	for name, text := range queryFiles(t) {
		holds(t, queryBreaches(name, text))
	}
}

// This test finds a statement that Postgres does not accept with the schema of the migrations, before a caller runs the
// statement.
func TestQueriesFitTheSchema(t *testing.T) {
	t.Parallel()
	holds(t, prepareBreaches(t, queryFiles(t)))
}

// prepareBreaches PREPAREs every query against a migrated database.
func prepareBreaches(t *testing.T, queries map[string]string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), prepareTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, pgtest.Database(t))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.WithoutCancel(ctx))) }()
	var complaints []string
	for name, text := range queries {
		if _, err := conn.Prepare(ctx, name, text); err != nil {
			complaints = append(complaints, fmt.Sprintf("sql/queries/%s: %v", name, err))
		}
	}
	return complaints
}

func TestQueriesThatPostgresRefusesAreFound(t *testing.T) {
	t.Parallel()
	complaints := prepareBreaches(t, map[string]string{
		"fits.sql":  "SELECT q.id FROM belfry.queue q WHERE q.name = $1",
		"typo.sql":  "SELECT q.idd FROM belfry.queue q",
		"two.sql":   "SELECT 1; SELECT 2",
		"table.sql": "SELECT s.id FROM belfry.no_such_table s",
	})
	require.Len(t, complaints, 3)
	require.NotContains(t, strings.Join(complaints, "\n"), "fits.sql")
}

// opensSession matches a call that opens a session with a name, or a constant with such a name.
var opensSession = regexp.MustCompile(`(?:\b(?:Open|open|OpenRelated|OpenSession|NewPinger|parse)\(.*|"application_name"\] = |\bapplication += )"(belfry[a-z -]*)"`)

// GET /api/v1/analytics/postgres-stats shows the text of a statement only if a session of Belfry runs the statement.
func TestStatementsKnowAllSessionsOfBelfry(t *testing.T) {
	t.Parallel()
	known := queryFiles(t)["insight/stats/statements.sql"]
	found := 0
	for _, dir := range []string{"pkg", "cmd"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, dir), func(path string, _ os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, m := range opensSession.FindAllSubmatch(text, -1) {
				found++
				require.Contains(t, known, "'"+string(m[1])+"'", path)
			}
			return err
		}))
	}
	require.GreaterOrEqual(t, found, 11, "opensSession must find the names")
}
