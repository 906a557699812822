package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/pgtest"
)

// statements matches the SQL in the runbook: SQL code blocks, and text between backticks that begins with an SQL
// keyword.
var statements = regexp.MustCompile("(?s)```sql\n(.+?)```|`((?:ALTER|GRANT|REVOKE|ROLLBACK|SELECT|SHOW|VACUUM) [^`]+;)`")

// This test runs every SQL statement of the runbook on a database of Belfry, in a separate transaction as psql does.
func TestSQLStatementsOfTheRunbookRun(t *testing.T) {
	t.Parallel()
	cluster := pgtest.OwnCluster(t, "fsync", "full_page_writes")
	require.NoError(t, cluster.CreateDatabase(t.Context(), "belfry"))
	dsn := cluster.URL("belfry")
	code, _, problems := belfry(t, "migrate", "up", "--database-url", dsn)
	require.Zero(t, code, problems)
	connect := func() *pgx.Conn {
		conn, err := pgx.Connect(t.Context(), dsn)
		require.NoError(t, err)
		return conn
	}
	conn := connect()
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	_, err := conn.Exec(t.Context(), "SELECT pg_create_physical_replication_slot('idle')")
	require.NoError(t, err)

	text, err := os.ReadFile("../../docs/runbook.md")
	require.NoError(t, err)
	ran := map[string]bool{}
	for _, match := range statements.FindAllStringSubmatch(string(text), -1) {
		for _, statement := range strings.SplitAfter(strings.TrimSpace(match[1]+match[2]), ";") {
			statement = strings.Join(strings.Fields(statement), " ")
			if ran[statement] || statement == "" || statement == "SHOW POOLS;" { // SHOW POOLS is a command of PgBouncer
				continue
			}
			ran[statement] = true
			filled := strings.NewReplacer("belfry.NAME", "belfry.message", "'NAME'", "'idle'", "DATABASE NAME", "DATABASE belfry").Replace(statement)
			if strings.Contains(filled, "PID") {
				filled = strings.ReplaceAll(filled, "PID", fmt.Sprint(connect().PgConn().PID()))
			}
			_, err := conn.Exec(t.Context(), filled)
			var problem *pgconn.PgError
			if statement == "ROLLBACK PREPARED 'GID';" {
				require.True(t, errors.As(err, &problem) && problem.Code == "42704", "the only error is that the prepared transaction does not exist: %v", err)
				continue
			}
			require.NoError(t, err, statement)
		}
	}
	require.Greater(t, len(ran), 30)
}
