package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Statement is a statement of a database and its executions.
type Statement struct {
	Text  string
	Calls int
	// Spent is the time of all calls at the database.
	Spent time.Duration
}

// ErrNoStatements says that the database does not count statements.
var ErrNoStatements = errors.New("the database has no extension pg_stat_statements")

// statistics marks the statements of this package, which are not counted.
const statistics = "pg_stat_statements"

// Statements returns the statements of a database so far, read over any connection to the same
// server that has the extension pg_stat_statements.
func Statements(ctx context.Context, conn *pgx.Conn, database string) ([]Statement, error) {
	var installed bool
	const look = `SELECT EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'pg_stat_statements')`
	if err := conn.QueryRow(ctx, look).Scan(&installed); err != nil {
		return nil, fmt.Errorf("looking for pg_stat_statements: %w", err)
	}
	if !installed {
		return nil, ErrNoStatements
	}
	const query = `
		SELECT s.query, sum(s.calls)::bigint, sum(s.total_exec_time)
		  FROM pg_stat_statements s
		  JOIN pg_database d ON d.oid = s.dbid
		 WHERE d.datname = $1 AND s.query NOT LIKE '%' || $2::text || '%' AND s.query NOT LIKE '%pg_extension%'
		 GROUP BY s.query`
	rows, err := conn.Query(ctx, query, database, statistics)
	if err != nil {
		return nil, fmt.Errorf("reading pg_stat_statements: %w", err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s Statement, err error) {
		var millis float64
		err = row.Scan(&s.Text, &s.Calls, &millis)
		s.Spent = time.Duration(millis * float64(time.Millisecond))
		return s, err
	})
	if err != nil {
		return nil, fmt.Errorf("reading pg_stat_statements: %w", err)
	}
	SortStatements(all)
	return all, nil
}

// SortStatements sorts the most frequent statements first.
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
