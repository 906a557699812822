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

// statements matches the SQL of the runbook: blocks, and text between backticks that begins with a word of SQL.
var statements = regexp.MustCompile("(?s)```sql\n(.+?)```|`((?:ALTER|GRANT|REVOKE|ROLLBACK|SELECT|SHOW|VACUUM) [^`]+;)`")

// Every SQL statement of the runbook runs on Belfry's database, each alone, as in psql.
func TestStatementsOfTheRunbook(t *testing.T) {
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
			if ran[statement] || statement == "" || statement == "SHOW POOLS;" { // that one is for PgBouncer
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
				require.True(t, errors.As(err, &problem) && problem.Code == "42704", "it only misses such a transaction: %v", err)
				continue
			}
			require.NoError(t, err, statement)
		}
	}
	require.Greater(t, len(ran), 30)
}
