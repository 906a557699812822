package load

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Statement is an SQL statement with the number and the total time of its calls.
type Statement struct {
	Text  string
	Calls int
	// Spent is the total execution time of all calls in the database.
	Spent time.Duration
}

// Statements returns the statements that a database has executed so far. conn is a connection to any database of the
// same server. The extension pg_stat_statements is required. The query of this function does not count.
func Statements(ctx context.Context, conn *pgx.Conn, database string) ([]Statement, error) {
	const query = `
		SELECT s.query, sum(s.calls)::bigint, make_interval(secs => sum(s.total_exec_time) / 1000)
		  FROM pg_stat_statements s
		  JOIN pg_database d ON d.oid = s.dbid
		 WHERE d.datname = $1 AND s.query NOT LIKE '%pg_stat_statements%'
		 GROUP BY s.query`
	rows, _ := conn.Query(ctx, query, database) // CollectRows returns the error
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Statement])
	if err != nil {
		return nil, fmt.Errorf("reading pg_stat_statements (is the extension installed?): %w", err)
	}
	return all, nil
}

// SortStatements sorts the statements by the number of calls, highest first.
func SortStatements(all []Statement) {
	slices.SortFunc(all, func(a, b Statement) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Text, b.Text))
	})
}

// ShortStatement returns the beginning of a statement on one line.
func ShortStatement(text string) string {
	const most = 60
	flat := strings.Join(strings.Fields(text), " ")
	if len(flat) > most {
		flat = strings.ToValidUTF8(flat[:most], "") + "..."
	}
	return flat
}
