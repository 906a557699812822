package schema

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var sqlDir = os.DirFS(filepath.Join("..", "..", "sql"))

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close(context.Background())) })
	return conn
}

func describe(t *testing.T, conn *pgx.Conn) map[string]string {
	t.Helper()
	objects, err := Describe(t.Context(), conn)
	require.NoError(t, err)
	return objects
}

// built returns a connection to a database whose schema comes from sql/schema
// and sql/functions.
func built(t *testing.T) *pgx.Conn {
	t.Helper()
	conn := connect(t, pgtest.DatabaseWithoutSchema(t))
	text, err := Create(sqlDir)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), text)
	require.NoError(t, err)
	return conn
}

func TestTheMigrationsMakeTheSchemaOfTheSources(t *testing.T) {
	t.Parallel()
	migrated := describe(t, connect(t, pgtest.Database(t)))
	require.Greater(t, len(migrated), 300)
	require.Empty(t, Differences(migrated, describe(t, built(t))), "left: the migrations; right: sql/schema and sql/functions")
}

func TestDropUndoesCreate(t *testing.T) {
	t.Parallel()
	conn := connect(t, pgtest.DatabaseWithoutSchema(t))
	_, err := conn.Exec(t.Context(), "CREATE SCHEMA belfry")
	require.NoError(t, err)
	before := describe(t, conn)
	drop, err := Drop(sqlDir)
	require.NoError(t, err)
	create, err := Create(sqlDir)
	require.NoError(t, err)
	for range 2 {
		_, err = conn.Exec(t.Context(), create)
		require.NoError(t, err)
		_, err = conn.Exec(t.Context(), drop)
		require.NoError(t, err)
		require.Empty(t, Differences(before, describe(t, conn)))
	}
}

// Each statement changes another part of the description.
func TestDifferencesAreFound(t *testing.T) {
	t.Parallel()
	conn := built(t)
	want := describe(t, conn)
	for change, object := range map[string]string{
		`ALTER TABLE belfry.queue ADD COLUMN n int`:                                           "column queue.n",
		`ALTER TABLE belfry.queue ALTER COLUMN ttl SET DEFAULT 1`:                             "column queue.ttl",
		`ALTER TABLE belfry.queue ALTER COLUMN ttl DROP NOT NULL`:                             "column queue.ttl",
		`GRANT SELECT (ttl) ON belfry.queue TO belfry_consumer`:                               "column queue.ttl",
		`ALTER TABLE belfry.queue SET (fillfactor = 10)`:                                      "relation queue",
		`ALTER TABLE belfry.queue SET (toast.vacuum_truncate = false)`:                        "relation queue",
		`ALTER TABLE belfry.queue REPLICA IDENTITY FULL`:                                      "relation queue",
		`ALTER TABLE belfry.queue ENABLE ROW LEVEL SECURITY`:                                  "relation queue",
		`GRANT SELECT ON belfry.queue TO belfry_consumer`:                                     "relation queue",
		`GRANT USAGE ON SEQUENCE belfry.queue_id_seq TO belfry_consumer`:                      "relation queue_id_seq",
		`ALTER SEQUENCE belfry.queue_id_seq CACHE 2`:                                          "relation queue_id_seq",
		`ALTER VIEW belfry.attachments RESET (security_barrier)`:                              "relation attachments",
		`DROP INDEX belfry.queue_tags`:                                                        "relation queue_tags",
		`ALTER INDEX belfry.queue_tags SET (fillfactor = 10)`:                                 "relation queue_tags",
		`ALTER TABLE belfry.queue ADD CONSTRAINT c CHECK (ttl > 0)`:                           "constraint belfry.queue c",
		`ALTER TABLE belfry.inbox DISABLE TRIGGER inbox_notify`:                               "trigger belfry.inbox inbox_notify",
		`DROP POLICY attachment_owner ON belfry.attachment`:                                   "policy belfry.attachment attachment_owner",
		`ALTER FUNCTION belfry.uuid_v7() STRICT`:                                              "function belfry.uuid_v7()",
		`ALTER FUNCTION belfry.uuid_v7() PARALLEL SAFE`:                                       "function belfry.uuid_v7()",
		`ALTER FUNCTION belfry.uuid_v7() COST 7`:                                              "function belfry.uuid_v7()",
		`ALTER FUNCTION belfry.uuid_v7() SECURITY DEFINER`:                                    "function belfry.uuid_v7()",
		`ALTER FUNCTION belfry.uuid_v7() SET work_mem = '1MB'`:                                "function belfry.uuid_v7()",
		`REVOKE EXECUTE ON FUNCTION belfry.uuid_v7() FROM PUBLIC`:                             "function belfry.uuid_v7()",
		`CREATE OR REPLACE FUNCTION belfry.baseline() RETURNS int LANGUAGE sql AS 'SELECT 1'`: "function belfry.baseline()",
		`COMMENT ON FUNCTION belfry.uuid_v7() IS 'x'`:                                         "comment function belfry.uuid_v7()",
		`CREATE TYPE belfry.e AS ENUM ('a')`:                                                  "type e",
		`GRANT CREATE ON SCHEMA belfry TO belfry_consumer`:                                    "schema belfry",
		`ALTER DEFAULT PRIVILEGES IN SCHEMA belfry GRANT SELECT ON TABLES TO belfry_consumer`: "default privileges r",
	} {
		tx, err := conn.Begin(t.Context())
		require.NoError(t, err)
		_, err = conn.Exec(t.Context(), change)
		require.NoError(t, err)
		got := Differences(want, describe(t, conn))
		require.NotEmpty(t, got, change)
		require.Contains(t, got[0]+" ", object, change)
		require.NoError(t, tx.Rollback(t.Context()))
	}
	require.Empty(t, Differences(want, describe(t, conn)))
}

func TestATableMissingInTheOrderIsRefused(t *testing.T) {
	t.Parallel()
	_, err := Create(fstest.MapFS{"schema/new.sql": {}})
	require.ErrorContains(t, err, "sql/schema/new.sql is missing")
}
