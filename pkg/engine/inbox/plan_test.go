package inbox

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/sql"
)

// The inbox is mostly empty when it is analyzed. The plans made then must suit many rows: they find
// rows by id in the primary key, and new rows by transaction.
func TestPlansForAnEmptyInboxSuitAFullOne(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.exec("INSERT INTO belfry.inbox (queue, payload) SELECT 'q', '1' FROM generate_series(1, 50)")
	r.exec("DELETE FROM belfry.inbox")
	_, err := r.SequencerPool.Exec(t.Context(), "VACUUM ANALYZE belfry.inbox")
	require.NoError(t, err)
	const parameters = "(text, bigint, bigint)"
	for name, statement := range map[string]struct{ parameters, query, arguments string }{
		"look":  {parameters, sql.Query("engine/inbox/look"), "('3:3:', 10, 10)"},
		"first": {parameters, sql.Query("engine/inbox/first"), "('3:3:', 10, 10)"},
		"take":  {"(bigint[])", "DELETE FROM belfry.inbox i WHERE i.id = ANY ($1)", "('{1,2}')"}, // as belfry.inbox_delete does
	} {
		conn, err := r.SequencerPool.Acquire(t.Context())
		require.NoError(t, err)
		_, err = conn.Exec(t.Context(), "PREPARE "+name+statement.parameters+" AS "+statement.query, pgx.QueryExecModeSimpleProtocol)
		require.NoError(t, err)
		rows, err := conn.Query(t.Context(), "EXPLAIN EXECUTE "+name+statement.arguments, pgx.QueryExecModeSimpleProtocol)
		require.NoError(t, err)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		conn.Release()
		plan := strings.Join(lines, "\n")
		require.Contains(t, plan, "inbox_pkey", "%s:\n%s", name, plan)
		require.NotRegexp(t, `using inbox_xid[^\n]*\n *(Index Cond: \(id|Filter)`, plan, name)
		require.NotContains(t, plan, "Seq Scan", "%s:\n%s", name, plan)
	}
}
