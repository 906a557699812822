package migrate_test

import (
	"io/fs"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/postgres/migrate"
	"github.com/belfry-mq/belfry/sql"
	"github.com/belfry-mq/belfry/test/schema"
)

// Each down migration undoes its up migration. Then all up migrations succeed again.
func TestEveryEmbeddedMigrationIsUndone(t *testing.T) {
	dsn := database(t)
	conn, m := connect(t, dsn), migrate.New(migrate.Config{URL: dsn}, nil)
	require.NoError(t, m.Up(t.Context()))
	whole, err := schema.Describe(t.Context(), conn)
	require.NoError(t, err)
	status, err := m.Status(t.Context())
	require.NoError(t, err)
	for range status.Latest {
		require.NoError(t, m.Down(t.Context(), 1))
	}
	empty, err := schema.Describe(t.Context(), conn)
	require.NoError(t, err)
	require.Len(t, empty, 1, "only the schema itself is left: %v", empty)
	require.NoError(t, m.Up(t.Context()))
	again, err := schema.Describe(t.Context(), conn)
	require.NoError(t, err)
	require.Empty(t, schema.Differences(whole, again))
}

// unreleased makes the schema of a version before the baseline: with the record and a table, and without the marker.
const unreleased = `CREATE SCHEMA belfry;
	CREATE TABLE belfry.schema_migrations (version bigint NOT NULL PRIMARY KEY, dirty boolean NOT NULL, previous bigint);
	CREATE TABLE belfry.queue (id bigint)`

func TestASchemaOfAnUnreleasedVersionIsRefused(t *testing.T) {
	dsn := database(t)
	conn, m := connect(t, dsn), migrate.New(migrate.Config{URL: dsn}, nil)
	exec(t, conn, unreleased)
	for _, c := range []struct {
		record string
		made   uint
	}{
		{"(38, false, NULL)", 38},
		{"(1, false, NULL)", 1},
		{"(38, true, 37)", 37},
		{"(37, true, 38)", 38},
	} {
		exec(t, conn, "DELETE FROM belfry.schema_migrations")
		exec(t, conn, "INSERT INTO belfry.schema_migrations VALUES "+c.record)
		_, plan := m.Plan(t.Context())
		for name, err := range map[string]error{
			"up": m.Up(t.Context()), "down": m.Down(t.Context(), 1), "force": m.Force(t.Context(), 1),
			"check": m.Check(t.Context()), "plan": plan,
		} {
			var refused *migrate.UnreleasedError
			require.ErrorAs(t, err, &refused, "%s of %s", name, c.record)
			require.Equal(t, c.made, refused.Version)
			require.ErrorContains(t, err, "DROP SCHEMA belfry CASCADE")
		}
		require.Equal(t, []string{"queue"}, tables(t, conn), "nothing was changed")
	}
	exec(t, conn, "DROP SCHEMA belfry CASCADE")
	require.NoError(t, m.Up(t.Context()), "the command in the error makes a migration possible")
}

// Before the first release, the baseline may change without a new version number. A schema of another baseline is then refused.
func TestASchemaOfAnotherBaselineIsRefused(t *testing.T) {
	dsn := database(t)
	conn, m := connect(t, dsn), migrate.New(migrate.Config{URL: dsn}, nil)
	require.NoError(t, m.Up(t.Context()))
	exec(t, conn, "COMMENT ON FUNCTION belfry.baseline() IS 'an earlier one'")
	var refused *migrate.UnreleasedError
	require.ErrorAs(t, m.Check(t.Context()), &refused)
	require.ErrorAs(t, m.Up(t.Context()), &refused)
}

// The version number alone does not identify a release, because later releases use the old numbers again.
func TestASchemaWithTheMarkerIsOfARelease(t *testing.T) {
	dsn := database(t)
	conn, m := connect(t, dsn), migrate.New(migrate.Config{URL: dsn}, nil)
	require.NoError(t, m.Up(t.Context()))
	require.NoError(t, m.Check(t.Context()))
	exec(t, conn, "UPDATE belfry.schema_migrations SET version = 38")
	var newer *migrate.NewerError
	require.ErrorAs(t, m.Check(t.Context()), &newer)
	require.Equal(t, uint(38), newer.Schema)
}

// An old binary that has undone all its migrations leaves an empty schema with a record.
func TestAnEmptySchemaNeedsNoMarker(t *testing.T) {
	dsn := database(t)
	conn, m := connect(t, dsn), migrate.New(migrate.Config{URL: dsn}, nil)
	exec(t, conn, unreleased)
	exec(t, conn, "DROP TABLE belfry.queue")
	exec(t, conn, "INSERT INTO belfry.schema_migrations VALUES (1, true, 0)")
	var dirty *migrate.DirtyError
	require.ErrorAs(t, m.Up(t.Context()), &dirty, "the baseline itself failed")
	require.NoError(t, m.Force(t.Context(), 0))
	require.NoError(t, m.Up(t.Context()))
}

// An instance reads the schema while another instance commits the baseline.
func TestABaselineOfAnotherInstanceIsOfARelease(t *testing.T) {
	dsn := database(t)
	m := migrate.New(migrate.Config{URL: dsn}, nil)
	conn, watch := connect(t, dsn), connect(t, dsn)
	require.NoError(t, m.Up(t.Context()))
	require.NoError(t, m.Down(t.Context(), 1))
	exec(t, conn, "BEGIN; LOCK TABLE belfry.schema_migrations IN ACCESS EXCLUSIVE MODE")
	checked := inBackground(func() error { return m.Up(t.Context()) })
	require.Eventually(t, func() bool {
		var waits bool
		err := watch.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'belfry.schema_migrations'::regclass AND NOT granted)`).Scan(&waits)
		return err == nil && waits
	}, patience, 5*time.Millisecond)
	text, err := fs.ReadFile(sql.Migrations, "migrations/000001_baseline.up.sql")
	require.NoError(t, err)
	exec(t, conn, string(text))
	exec(t, conn, "INSERT INTO belfry.schema_migrations (version, dirty) VALUES (1, false); COMMIT")
	require.NoError(t, result(t, checked))
}
