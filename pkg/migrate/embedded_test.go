package migrate_test

import (
	"io/fs"
	"strconv"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/migrate"
	"github.com/belfry-mq/belfry/sql"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// shape describes everything in the schema that a migration can make. The order
// of columns is left out: one that comes back comes last.
func shape(t *testing.T, conn *pgx.Conn) []string {
	t.Helper()
	rows, err := conn.Query(t.Context(), `
		SELECT p.oid::regprocedure || ' ' || md5(pg_get_functiondef(p.oid)) FROM pg_proc p WHERE p.pronamespace = 'belfry'::regnamespace
		UNION ALL
		SELECT c.relname || '.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod) || ' ' || a.attnotnull || ' '
		       || a.attcollation || ' ' || a.attidentity::text || ' ' || coalesce(pg_get_expr(d.adbin, d.adrelid), '')
		  FROM pg_class c
		  JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
		  LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
		 WHERE c.relnamespace = 'belfry'::regnamespace AND c.relkind = 'r'
		UNION ALL
		SELECT i.indexdef FROM pg_indexes i WHERE i.schemaname = 'belfry'
		UNION ALL
		SELECT pg_get_triggerdef(g.oid) || ' ' || g.tgenabled::text FROM pg_trigger g JOIN pg_class c ON c.oid = g.tgrelid
		 WHERE c.relnamespace = 'belfry'::regnamespace AND NOT g.tgisinternal
		UNION ALL
		SELECT k.conrelid::regclass || ' ' || pg_get_constraintdef(k.oid) FROM pg_constraint k WHERE k.connamespace = 'belfry'::regnamespace
		UNION ALL
		SELECT c.relname || ' ' || coalesce(c.reloptions::text, '') FROM pg_class c
		 WHERE c.relnamespace = 'belfry'::regnamespace AND c.relkind = 'r'
		ORDER BY 1`)
	require.NoError(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return lines
}

// upTo are the embedded migrations up to a version.
func upTo(t *testing.T, version uint) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{}
	entries, err := fs.ReadDir(sql.Migrations, "migrations")
	require.NoError(t, err)
	for _, entry := range entries {
		number, err := strconv.ParseUint(entry.Name()[:6], 10, 32)
		require.NoError(t, err)
		if uint(number) <= version {
			text, err := fs.ReadFile(sql.Migrations, "migrations/"+entry.Name())
			require.NoError(t, err)
			files[entry.Name()] = &fstest.MapFile{Data: text}
		}
	}
	return files
}

// oldest is the first version that the way down is checked to lead back to:
// migration 4, which stays as it is, leaves its function behind on the way down.
const oldest = 4

// Each way down leads to the schema that its way up began with, functions and
// all, and from there up again to the newest.
func TestEveryEmbeddedMigrationIsUndone(t *testing.T) {
	t.Parallel()
	dsn := pgtest.EmptyDatabase(t)
	conn, whole := connect(t, dsn), migrate.New(migrate.Config{URL: dsn}, nil)
	status, err := whole.Status(t.Context())
	require.NoError(t, err)
	shapes := make([][]string, status.Latest+1)
	for version := uint(1); version <= status.Latest; version++ {
		require.NoError(t, migrator(dsn, upTo(t, version)).Up(t.Context()))
		shapes[version] = shape(t, conn)
	}
	for version := status.Latest - 1; version >= oldest; version-- {
		require.NoError(t, whole.Down(t.Context(), 1))
		require.Equal(t, shapes[version], shape(t, conn), "back at version %d", version)
	}
	require.NoError(t, whole.Up(t.Context()))
	require.Equal(t, shapes[status.Latest], shape(t, conn))
}
