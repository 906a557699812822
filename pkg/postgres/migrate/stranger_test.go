package migrate_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/postgres/migrate"
	"github.com/belfry-mq/belfry/test/pgtest"
)

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

// A role that may only connect can hold the migration lock. That stops only who has something to migrate, and the
// error names the role and the session.
func TestAStrangerWithTheLockStopsOnlyMigrations(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DatabaseWithoutSchema(t)
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

// Only the owner of a table can change it: a role with every other right changes nothing, and is told of the GRANT.
func TestARoleThatOwnsNoTableMigratesNothing(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DatabaseWithoutSchema(t)
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
