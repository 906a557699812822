package migrate_test

import (
	"context"
	"fmt"
	"runtime/debug"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/belfry-mq/belfry/pkg/postgres/migrate"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// database opens a database without a schema for a test, and makes the test parallel.
func database(t *testing.T) (dsn string) {
	t.Helper()
	t.Parallel()
	return pgtest.DatabaseWithoutSchema(t)
}

func TestMain(m *testing.M) { pgtest.Main(m) }

// patience bounds each wait of a test. A test that waits this long has failed.
const patience = 30 * time.Second

// source makes migrations from pairs of an up text and a down text. The first version is 1.
func source(pairs ...string) fstest.MapFS {
	files := fstest.MapFS{}
	for i := 0; i < len(pairs); i += 2 {
		name := fmt.Sprintf("%06d_step_%d", i/2+1, i/2+1)
		files[name+".up.sql"] = &fstest.MapFile{Data: []byte(pairs[i])}
		files[name+".down.sql"] = &fstest.MapFile{Data: []byte(pairs[i+1])}
	}
	return files
}

func three() fstest.MapFS {
	return source(
		"CREATE TABLE belfry.one (n int);\nCREATE TABLE belfry.log (version int);\nINSERT INTO belfry.log VALUES (1);",
		"DROP TABLE belfry.one; DROP TABLE belfry.log",
		"CREATE TABLE belfry.two (n int); INSERT INTO belfry.log VALUES (2) -- no semicolon, and a comment",
		"DROP TABLE belfry.two;",
		"CREATE TABLE belfry.three (n int); INSERT INTO belfry.log VALUES (3);",
		"DROP TABLE belfry.three;\n",
	)
}

func migrator(dsn string, files fstest.MapFS) *migrate.Migrator {
	return migrate.New(migrate.Config{URL: dsn, LockTimeout: patience, Source: files}, nil)
}

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func exec(t *testing.T, conn *pgx.Conn, statement string, args ...any) {
	t.Helper()
	_, err := conn.Exec(t.Context(), statement, args...)
	require.NoError(t, err)
}

// tables lists the tables of the schema without the record.
func tables(t *testing.T, conn *pgx.Conn) []string {
	t.Helper()
	rows, err := conn.Query(t.Context(), `SELECT tablename::text FROM pg_tables
		WHERE schemaname = 'belfry' AND tablename <> 'schema_migrations' ORDER BY tablename`)
	require.NoError(t, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return names
}

func requireAt(t *testing.T, m *migrate.Migrator, version uint) {
	t.Helper()
	status, err := m.Status(t.Context())
	require.NoError(t, err)
	require.Equal(t, version, status.Version)
	require.False(t, status.Dirty)
}

func TestUpDownAndBack(t *testing.T) {
	dsn := database(t)
	conn, m := connect(t, dsn), migrator(dsn, three())

	requireAt(t, m, 0)
	require.NoError(t, m.Up(t.Context()))
	requireAt(t, m, 3)
	require.NoError(t, m.Check(t.Context()))
	require.Equal(t, []string{"log", "one", "three", "two"}, tables(t, conn))
	require.NoError(t, m.Up(t.Context()), "nothing to do is no error")

	require.NoError(t, m.Down(t.Context(), 2))
	requireAt(t, m, 1)
	require.Equal(t, []string{"log", "one"}, tables(t, conn))
	require.ErrorContains(t, m.Down(t.Context(), 2), "only 1 are applied")
	requireAt(t, m, 1)
	require.NoError(t, m.Down(t.Context(), 1))
	requireAt(t, m, 0)
	require.Empty(t, tables(t, conn))
	var recorded bool
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT EXISTS (SELECT 1 FROM belfry.schema_migrations)`).Scan(&recorded))
	require.False(t, recorded, "golang-migrate keeps no row for the empty schema")
	require.ErrorContains(t, m.Down(t.Context(), 1), "only 0 are applied")
	require.ErrorContains(t, m.Down(t.Context(), 0), "number from 1")

	require.NoError(t, m.Up(t.Context()))
	requireAt(t, m, 3)
}

func TestEmbeddedMigrationsGoUpDownAndUp(t *testing.T) {
	dsn := database(t)
	conn, m := connect(t, dsn), migrate.New(migrate.Config{URL: dsn}, nil)
	require.NoError(t, m.Up(t.Context()))
	require.NoError(t, m.Check(t.Context()))
	made := tables(t, conn)
	require.NotEmpty(t, made)

	status, err := m.Status(t.Context())
	require.NoError(t, err)
	require.NoError(t, m.Down(t.Context(), int(status.Latest)))
	require.Empty(t, tables(t, conn))
	var leftovers int
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_proc WHERE pronamespace = 'belfry'::regnamespace`).Scan(&leftovers))
	require.Zero(t, leftovers, "functions are left after going down")

	require.NoError(t, m.Up(t.Context()))
	require.Equal(t, made, tables(t, conn))
}

// Settings of a database must not change how the text of a function is read.
func TestEmbeddedMigrationsDoNotDependOnTheDatabasesSettings(t *testing.T) {
	dsn := database(t)
	pgtest.Set(t, dsn, pgtest.ForeignSettings())
	m := migrate.New(migrate.Config{URL: dsn}, nil)
	require.NoError(t, m.Up(t.Context()))
	require.NoError(t, m.Down(t.Context(), 1))
	require.NoError(t, m.Up(t.Context()))
}

func TestStatusPlanAndCheckChangeNothing(t *testing.T) {
	dsn := database(t)
	conn, m := connect(t, dsn), migrator(dsn, three())

	status, err := m.Status(t.Context())
	require.NoError(t, err)
	require.Equal(t, uint(3), status.Latest)
	require.Len(t, status.Pending, 3)
	err = m.Check(t.Context())
	require.ErrorContains(t, err, "has not been created")
	require.ErrorContains(t, err, "belfry migrate up")
	var schema bool
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT to_regnamespace('belfry') IS NOT NULL`).Scan(&schema))
	require.False(t, schema, "Status and Check must not create the schema")

	single := fstest.MapFS{"000001_step_1.up.sql": three()["000001_step_1.up.sql"]}
	require.NoError(t, migrator(dsn, single).Up(t.Context()))
	var older *migrate.OlderError
	require.ErrorAs(t, m.Check(t.Context()), &older)
	require.Equal(t, migrate.OlderError{Schema: 1, Binary: 3}, *older)
	require.ErrorContains(t, older, "version 1")

	steps, err := m.Plan(t.Context())
	require.NoError(t, err)
	require.Equal(t, []migrate.Step{
		{Version: 2, Name: "step_2", SQL: string(three()["000002_step_2.up.sql"].Data)},
		{Version: 3, Name: "step_3", SQL: string(three()["000003_step_3.up.sql"].Data)},
	}, steps)
	requireAt(t, m, 1)
	require.NoError(t, m.Up(t.Context()))
	steps, err = m.Plan(t.Context())
	require.NoError(t, err)
	require.Empty(t, steps)
}

func TestNewerSchemaIsRefusedByEveryCommand(t *testing.T) {
	dsn := database(t)
	require.NoError(t, migrator(dsn, three()).Up(t.Context()))
	old := three()
	delete(old, "000003_step_3.up.sql")
	delete(old, "000003_step_3.down.sql")
	m := migrator(dsn, old)

	_, plan := m.Plan(t.Context())
	for name, err := range map[string]error{
		"up": m.Up(t.Context()), "down": m.Down(t.Context(), 1), "force": m.Force(t.Context(), 2),
		"plan": plan, "check": m.Check(t.Context()),
	} {
		var newer *migrate.NewerError
		require.ErrorAs(t, err, &newer, name)
		require.Equal(t, migrate.NewerError{Schema: 3, Binary: 2}, *newer, name)
		require.ErrorContains(t, err, "use a newer binary", name)
		require.ErrorContains(t, err, "belfry migrate down", name)
	}
	requireAt(t, m, 3)
}

func TestUnknownVersionInBetweenIsRefused(t *testing.T) {
	dsn := database(t)
	require.NoError(t, migrator(dsn, three()).Up(t.Context()))
	require.NoError(t, migrator(dsn, three()).Down(t.Context(), 1))
	gap := three()
	delete(gap, "000002_step_2.up.sql")
	delete(gap, "000002_step_2.down.sql")
	require.ErrorContains(t, migrator(dsn, gap).Up(t.Context()), "at version 2, which this binary does not know")
}

func TestForceRefusesUnknownVersions(t *testing.T) {
	dsn := database(t)
	m := migrator(dsn, three())
	require.ErrorContains(t, m.Force(t.Context(), 4), "latest 3")
	require.ErrorContains(t, m.Force(t.Context(), -1), "0 for the empty schema")
	require.NoError(t, m.Force(t.Context(), 2))
	requireAt(t, m, 2)
	require.NoError(t, m.Force(t.Context(), 0))
	requireAt(t, m, 0)
}

// newRole makes a role for the test, and returns its quoted name and a DSN that works as that role.
func newRole(t *testing.T, dsn string, conn *pgx.Conn) (quoted, roleDSN string) {
	t.Helper()
	role := "role_of_" + conn.Config().Database
	quoted = pgx.Identifier{role}.Sanitize()
	exec(t, conn, "CREATE ROLE "+quoted)
	t.Cleanup(func() {
		_, err := conn.Exec(context.Background(), fmt.Sprintf("DROP OWNED BY %[1]s; DROP ROLE %[1]s", quoted))
		require.NoError(t, err)
	})
	return quoted, addParam(t, dsn, "role", role)
}

// A role with few rights may start a server if another role migrates the schema.
func TestUpToDateSchemaNeedsNoRightsBeyondReading(t *testing.T) {
	dsn := database(t)
	conn := connect(t, dsn)
	role, roleDSN := newRole(t, dsn, conn)
	reader := migrator(roleDSN, three())

	require.ErrorContains(t, reader.Up(t.Context()), "GRANT CREATE ON DATABASE")
	require.NoError(t, migrator(dsn, three()).Up(t.Context()))
	exec(t, conn, fmt.Sprintf("GRANT USAGE ON SCHEMA belfry TO %[1]s; GRANT SELECT ON belfry.schema_migrations TO %[1]s", role))
	require.NoError(t, reader.Up(t.Context()))
	require.NoError(t, reader.Check(t.Context()))
}

func TestOwnerOfTheSchemaNeedsNoRightOnTheDatabase(t *testing.T) {
	dsn := database(t)
	conn := connect(t, dsn)
	role, roleDSN := newRole(t, dsn, conn)
	exec(t, conn, "CREATE SCHEMA belfry AUTHORIZATION "+role)
	owner := migrator(roleDSN, three())
	require.NoError(t, owner.Up(t.Context()))
	require.NoError(t, owner.Check(t.Context()))
}

func TestRequestTimeoutsOfTheDatabaseDoNotApply(t *testing.T) {
	dsn := database(t)
	conn := connect(t, dsn)
	exec(t, conn, fmt.Sprintf("ALTER DATABASE %s SET statement_timeout = '20ms'", pgx.Identifier{conn.Config().Database}.Sanitize()))
	require.NoError(t, migrator(dsn, source("SELECT pg_sleep(0.1)", "SELECT 1")).Up(t.Context()))
}

// This test is not parallel, because it counts goroutines. The parallel tests wait until it has ended.
func TestNothingIsLeftBehind(t *testing.T) {
	// The garbage collector would close forgotten connections.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	dsn := pgtest.DatabaseWithoutSchema(t)
	conn := connect(t, dsn)
	before := goleak.IgnoreCurrent()

	many := source("CREATE TABLE belfry.one (n int)", "DROP TABLE belfry.one")
	for i := 2; i < 30; i++ {
		many[fmt.Sprintf("%06d_bad.up.sql", i)] = &fstest.MapFile{Data: []byte("SELECT 1/0")}
	}
	m := migrator(dsn, many)
	require.Error(t, m.Up(t.Context()))
	require.Error(t, m.Check(t.Context()))
	require.NoError(t, m.Force(t.Context(), 1))
	require.NoError(t, m.Down(t.Context(), 1))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, m.Up(ended), context.Canceled)
	// The trigger makes the write of the record fail, between two calls of golang-migrate.
	exec(t, conn, "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''no''; END'; "+
		"CREATE TRIGGER refuse BEFORE INSERT ON belfry.schema_migrations FOR EACH ROW EXECUTE FUNCTION refuse()")
	require.ErrorContains(t, m.Up(t.Context()), "recording version 1")

	require.Eventually(t, func() bool { return goleak.Find(before) == nil }, patience, 5*time.Millisecond,
		"goroutines outlived the calls")
	require.Eventually(t, func() bool {
		var others int
		err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'`).Scan(&others)
		return err == nil && others == 0
	}, patience, 5*time.Millisecond, "connections stay open")
}
