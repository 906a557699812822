package migrate_test

import (
	"context"
	"net"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/postgres/migrate"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// follow expects a DirtyError and does what its text advises.
func follow(t *testing.T, m *migrate.Migrator, command func() error) migrate.DirtyError {
	t.Helper()
	err := command()
	var dirty *migrate.DirtyError
	require.ErrorAs(t, err, &dirty)
	advice := regexp.MustCompile(`"belfry migrate force (\d+)"`).FindStringSubmatch(err.Error())
	require.NotNil(t, advice, "no command in: %v", err)
	version, convErr := strconv.Atoi(advice[1])
	require.NoError(t, convErr)
	require.NoError(t, m.Force(t.Context(), version))
	return *dirty
}

func TestMistakeInTheMiddleLeavesNothingAndTheAdviceWorks(t *testing.T) {
	dsn := database(t)
	conn := connect(t, dsn)
	bad := three()
	bad["000002_step_2.up.sql"] = &fstest.MapFile{
		Data: []byte("CREATE TABLE belfry.two (n int);\nINSERT INTO belfry.log VALUES (2);\n\n  SELECT nonsense;\nCREATE TABLE belfry.late (n int);"),
	}
	m := migrator(dsn, bad)
	err := m.Up(t.Context())
	require.ErrorContains(t, err, "migrating from version 1 to version 2")
	require.ErrorContains(t, err, `column "nonsense" does not exist`)
	require.ErrorContains(t, err, "line 4 of the file")
	require.ErrorContains(t, err, `"belfry migrate force 1" and "belfry migrate up"`)

	require.Equal(t, []string{"log", "one"}, tables(t, conn))
	var logged int
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT max(version) FROM belfry.log`).Scan(&logged))
	require.Equal(t, 1, logged)
	status, err := m.Status(t.Context())
	require.NoError(t, err)
	require.Equal(t, uint(2), status.Version)
	require.True(t, status.Dirty)
	require.Nil(t, status.Migrating)
	require.Len(t, status.Pending, 2, "version 2 is still to be run")

	_, plan := m.Plan(t.Context())
	for name, err := range map[string]error{
		"up": m.Up(t.Context()), "down": m.Down(t.Context(), 1), "check": m.Check(t.Context()),
		"plan": plan, "status": status.Problem,
	} {
		var dirty *migrate.DirtyError
		require.ErrorAs(t, err, &dirty, name)
		require.Equal(t, migrate.DirtyError{Version: 2, Previous: 1, Known: true}, *dirty, name)
		require.ErrorContains(t, err, "nothing of it is left and the schema is still at version 1", name)
	}

	follow(t, m, func() error { return m.Up(t.Context()) })
	requireAt(t, m, 1)
	require.NoError(t, migrator(dsn, three()).Up(t.Context()))
	require.Equal(t, []string{"log", "one", "three", "two"}, tables(t, conn))
}

func TestMistakeOnTheWayDownIsRepairedForwards(t *testing.T) {
	t.Parallel()
	for _, version := range []uint{1, 2} {
		dsn := pgtest.DatabaseWithoutSchema(t)
		conn := connect(t, dsn)
		bad := source("CREATE TABLE belfry.one (n int)", "DROP TABLE belfry.one; SELECT 1/0",
			"CREATE TABLE belfry.two (n int)", "DROP TABLE belfry.two; SELECT 1/0")
		if version == 1 {
			delete(bad, "000002_step_2.up.sql")
			delete(bad, "000002_step_2.down.sql")
		}
		m := migrator(dsn, bad)
		require.NoError(t, m.Up(t.Context()))
		before := tables(t, conn)

		dirty := follow(t, m, func() error { return m.Down(t.Context(), 1) })
		require.Equal(t, migrate.DirtyError{Version: version - 1, Previous: version, Known: true}, dirty)
		require.ErrorContains(t, &dirty, `"belfry migrate down"`)
		require.Equal(t, before, tables(t, conn))
		requireAt(t, m, version)
		require.NoError(t, m.Check(t.Context()))
	}
}

func TestDirtyRecordOfAnotherToolIsExplained(t *testing.T) {
	dsn := database(t)
	m := migrator(dsn, three())
	require.NoError(t, m.Up(t.Context()))
	exec(t, connect(t, dsn), `UPDATE belfry.schema_migrations SET version = 2, dirty = true`)
	dirty := follow(t, m, func() error { return m.Up(t.Context()) })
	require.False(t, dirty.Known)
	requireAt(t, m, 2)
}

func TestFilesThatCannotBeRunAreRefused(t *testing.T) {
	t.Parallel()
	file := &fstest.MapFile{Data: []byte("SELECT 1")}
	for want, files := range map[string]fstest.MapFS{
		"brings no migrations":          {},
		"2_forgotten_direction.sql":     {"1_a.up.sql": file, "2_forgotten_direction.sql": file},
		"start at 1":                    {"0_zero.up.sql": file},
		"the .up.sql file of version 2": {"1_a.up.sql": file, "2_b.down.sql": file},
		"1_":                            {"1_a.up.sql": file, "001_b.up.sql": file},
	} {
		// The files are checked before the database is needed.
		require.ErrorContains(t, migrator("", files).Up(t.Context()), want)
	}
}

func TestDownWithoutFileChangesNothing(t *testing.T) {
	dsn := database(t)
	files := three()
	delete(files, "000002_step_2.down.sql")
	m := migrator(dsn, files)
	require.NoError(t, m.Up(t.Context()))
	require.ErrorContains(t, m.Down(t.Context(), 2), "version 2 (step_2) cannot be undone")
	requireAt(t, m, 3)
}

func TestUnreachableDatabaseIsNamedWithoutThePassword(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	require.NoError(t, listener.Close())
	cc, err := pgx.ParseConfig(addParam(t, pgtest.DatabaseWithoutSchema(t), "dbname", "no_such_database"))
	require.NoError(t, err)

	for dsn, want := range map[string]string{
		"postgres://u:s3cret@" + address + "/d":                 "the database at " + address + " cannot be reached",
		"host=127.0.0.1 port=1 user=u password=s3cret dbname=d": "the database at 127.0.0.1:1 cannot be reached",
		"postgres://u:s3cret@h.invalid/d":                       "the database at h.invalid:5432 cannot be reached",
		cc.ConnString():                                         `the database "no_such_database" does not exist`,
		"":                                                      "set database.url",
		"postgres://u:s3cret/x@h:1/d":                           "percent-encoded",
		"postgres://u:s3cret%zz@h:1/d":                          "percent-encoded",
		"postgres://u@h:1/d?password=s3cret&sslmode=maybe":      "sslmode",
		"postgres://u:s3cret@h:port/d":                          "percent-encoded",
		"postgres://u:s3cret@h:99999999/d":                      "percent-encoded",
		"s3cret":                                                "postgres://user:password@",
		"host=h password='s3cret":                               "postgres://user:password@",
		"postgres://u:s3cret@h/d?sslmode=verify-ca&sslrootcert=/nowhere/": "/nowhere/",
	} {
		_, err := migrator(dsn, three()).Status(t.Context())
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "s3cret")
	}
}

func TestConnectingEndsWithTheContext(t *testing.T) {
	t.Parallel()
	// The server accepts connections and never answers.
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	m := migrator("postgres://u@"+listener.Addr().String()+"/d?sslmode=disable", three())
	require.ErrorIs(t, m.Up(ctx), context.DeadlineExceeded)
}

// holdAsStranger takes the migration lock as a role that may only connect. It returns the role and the pid.
func holdAsStranger(t *testing.T, dsn string) (role string, pid uint32) {
	t.Helper()
	admin := connect(t, dsn)
	role = "stranger_of_" + admin.Config().Database
	quoted := pgx.Identifier{role}.Sanitize()
	exec(t, admin, "CREATE ROLE "+quoted+" LOGIN")
	t.Cleanup(func() { // roles belong to the whole cluster
		conn, err := pgx.Connect(context.Background(), dsn)
		require.NoError(t, err)
		_, err = conn.Exec(context.Background(), "DROP ROLE IF EXISTS "+quoted)
		require.NoError(t, err)
		require.NoError(t, conn.Close(context.Background()))
	})
	require.Contains(t, dsn, "postgres@")
	stranger := connect(t, strings.Replace(dsn, "postgres@", role+"@", 1))
	exec(t, stranger, "SET application_name = 'belfry migrate'; SELECT pg_advisory_lock(x'62656c66727901'::bigint)")
	return role, stranger.PgConn().PID()
}

// A role that may only connect can hold the migration lock. This stops only a run that has something to migrate. The error names
// the role and the session.
func TestAStrangerWithTheLockStopsOnlyMigrations(t *testing.T) {
	dsn := database(t)
	role, pid := holdAsStranger(t, dsn)
	up := func() error {
		return migrate.New(migrate.Config{URL: dsn, LockTimeout: 50 * time.Millisecond, Source: three()}, nil).Up(t.Context())
	}
	named := func(err error) {
		var locked *migrate.LockedError
		require.ErrorAs(t, err, &locked)
		require.Equal(t, &migrate.Holder{PID: int32(pid), Role: role, Application: "belfry migrate", Address: locked.Holder.Address, Stranger: true}, locked.Holder)
		for _, word := range []string{
			`role "` + role + `"`, "may not migrate", "pg_terminate_backend(" + strconv.Itoa(int(pid)) + ")", "REVOKE CONNECT",
		} {
			require.ErrorContains(t, err, word)
		}
		require.NotContains(t, err.Error(), "another instance")
	}
	m := migrator(dsn, three())
	named(up())
	status, err := m.Status(t.Context())
	require.NoError(t, err)
	require.Nil(t, status.Migrating, "a stranger migrates nothing")
	require.Equal(t, &migrate.OlderError{Binary: 3}, status.Problem)

	admin := connect(t, dsn)
	exec(t, admin, "SELECT pg_terminate_backend($1)", int32(pid))
	require.NoError(t, m.Up(t.Context()))
	exec(t, admin, `DROP ROLE "`+role+`"`)
	role, pid = holdAsStranger(t, dsn)
	require.NoError(t, up(), "nothing is to be migrated")
	exec(t, admin, "UPDATE belfry.schema_migrations SET dirty = true, previous = 2")
	var dirty *migrate.DirtyError
	require.ErrorAs(t, m.Check(t.Context()), &dirty, "nobody is migrating")
	exec(t, admin, "UPDATE belfry.schema_migrations SET version = 2, dirty = false, previous = NULL")
	named(up())
}

// Only the owner of a table can change the table. A role with every other right changes nothing, and its error names the GRANT.
func TestARoleThatOwnsNoTableMigratesNothing(t *testing.T) {
	dsn := database(t)
	admin, owners := connect(t, dsn), migrator(dsn, three())
	require.NoError(t, owners.Up(t.Context()))
	require.NoError(t, owners.Down(t.Context(), 1))
	role := "helper_of_" + admin.Config().Database
	exec(t, admin, "CREATE ROLE "+role+" LOGIN; GRANT ALL ON SCHEMA belfry TO "+role+"; GRANT ALL ON ALL TABLES IN SCHEMA belfry TO "+role)
	t.Cleanup(func() { // roles belong to the whole cluster
		conn, err := pgx.Connect(context.Background(), dsn)
		require.NoError(t, err)
		_, err = conn.Exec(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role)
		require.NoError(t, err)
		require.NoError(t, conn.Close(context.Background()))
	})
	m := migrator(strings.Replace(dsn, "postgres@", role+"@", 1), three())
	for name, err := range map[string]error{"up": m.Up(t.Context()), "down": m.Down(t.Context(), 1)} {
		var refused *postgres.Problem
		require.ErrorAs(t, err, &refused, name)
		require.ErrorContains(t, err, "GRANT postgres TO "+role)
	}
	requireAt(t, owners, 2)
	exec(t, admin, "GRANT postgres TO "+role)
	require.NoError(t, m.Up(t.Context()))
}
