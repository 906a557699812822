package migrate_test

import (
	"context"
	"io"
	"net"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/belfry-mq/belfry/pkg/postgres/migrate"
)

// gate is a lock for which a migration of gated waits. The test holds the lock until it calls open.
type gate struct {
	conn *pgx.Conn
	dsn  string
}

// gated has one migration that makes a table, waits at the gate, and makes another table.
func gated() fstest.MapFS {
	return source("CREATE TABLE belfry.before (n int); SELECT pg_advisory_xact_lock(1); CREATE TABLE belfry.after (n int)",
		"DROP TABLE belfry.before; DROP TABLE belfry.after")
}

func newGate(t *testing.T, dsn string) *gate {
	t.Helper()
	g := &gate{conn: connect(t, dsn), dsn: dsn}
	exec(t, g.conn, "SELECT pg_advisory_lock(1)")
	return g
}

func (g *gate) open(t *testing.T) {
	t.Helper()
	exec(t, g.conn, "SELECT pg_advisory_unlock(1)")
}

// waiting blocks until a migration waits at the gate, and returns the pid of its session.
func (g *gate) waiting(t *testing.T) (pid int32) {
	t.Helper()
	require.Eventually(t, func() bool {
		err := g.conn.QueryRow(t.Context(), `SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&pid)
		return err == nil
	}, patience, 5*time.Millisecond, "no migration reached the gate")
	return pid
}

func inBackground(work func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- work() }()
	return done
}

func result(t *testing.T, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		require.FailNow(t, "the migration did not end")
		return nil
	}
}

func addParam(t *testing.T, dsn, key, value string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	require.NoError(t, err)
	require.NotEmpty(t, u.Scheme, "the DSN is not a URL")
	q := u.Query()
	q.Set(key, value)
	u.RawQuery = q.Encode()
	return u.String()
}

func TestTenInstancesStartTogether(t *testing.T) {
	dsn := database(t)
	start := make(chan struct{})
	var done [10]<-chan error
	for i := range done {
		m := migrator(dsn, three())
		done[i] = inBackground(func() error {
			<-start
			if err := m.Up(t.Context()); err != nil {
				return err
			}
			return m.Check(t.Context())
		})
	}
	close(start)
	for i := range done {
		require.NoError(t, result(t, done[i]), "instance %d", i)
	}
	var ran []int32
	require.NoError(t, connect(t, dsn).QueryRow(t.Context(), `SELECT array_agg(version) FROM belfry.log`).Scan(&ran))
	require.Equal(t, []int32{1, 2, 3}, ran, "each migration runs once, in order")
}

func TestOtherInstancesWaitAndNameTheMigratingInstance(t *testing.T) {
	dsn := database(t)
	g := newGate(t, dsn)
	first := inBackground(func() error {
		return migrator(addParam(t, dsn, "application_name", "slow-one"), gated()).Up(t.Context())
	})
	pid := g.waiting(t)

	core, logged := observer.New(zap.InfoLevel)
	impatient := migrate.New(migrate.Config{URL: dsn, LockTimeout: 50 * time.Millisecond, Source: gated()}, zap.New(core))
	var locked *migrate.LockedError
	for name, err := range map[string]error{
		"up": impatient.Up(t.Context()), "down": impatient.Down(t.Context(), 1), "force": impatient.Force(t.Context(), 0),
	} {
		require.ErrorAs(t, err, &locked, name)
		require.GreaterOrEqual(t, locked.Waited, 50*time.Millisecond, name)
		require.Equal(t, pid, locked.Holder.PID, name)
		for _, word := range []string{
			"has been migrating the schema for", `application "slow-one"`, "database.migrate_lock_timeout",
			"pg_terminate_backend(" + strconv.Itoa(int(pid)) + ")",
		} {
			require.ErrorContains(t, err, word, name)
		}
	}
	require.Equal(t, 3, logged.FilterMessage("waiting for another instance that is migrating").Len(), "one log line for each wait")

	// The record is dirty now, but no error may advise a repair, because the migration still runs.
	status, err := impatient.Status(t.Context())
	require.NoError(t, err)
	require.True(t, status.Dirty)
	require.Equal(t, pid, status.Migrating.PID)
	_, plan := impatient.Plan(t.Context())
	for _, err := range []error{impatient.Check(t.Context()), plan} {
		require.ErrorAs(t, err, &locked)
		require.ErrorContains(t, err, "right now")
		require.NotContains(t, err.Error(), "force")
	}

	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := inBackground(func() error { return migrator(dsn, gated()).Up(ctx) })
	patient := inBackground(func() error { return migrator(dsn, gated()).Up(t.Context()) })
	cancel()
	require.ErrorIs(t, result(t, gaveUp), context.Canceled)
	g.open(t)
	require.NoError(t, result(t, first))
	require.NoError(t, result(t, patient))
	require.NoError(t, impatient.Check(t.Context()))
}

func TestCancelledMigrationIsUndoneAndCanBeRunAgain(t *testing.T) {
	dsn := database(t)
	g, m := newGate(t, dsn), migrator(dsn, gated())
	ctx, cancel := context.WithCancel(t.Context())
	done := inBackground(func() error { return m.Up(ctx) })
	g.waiting(t)
	cancel()
	err := result(t, done)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "nothing was changed")
	require.Empty(t, tables(t, g.conn))
	requireAt(t, m, 0)
	g.open(t)
	require.NoError(t, m.Up(t.Context()))
}

func TestMigrationGivesUpWhenATableIsBusy(t *testing.T) {
	dsn := database(t)
	files := source("CREATE TABLE belfry.one (n int)", "DROP TABLE belfry.one",
		"CREATE TABLE belfry.two (n int); ALTER TABLE belfry.one ADD COLUMN m int", "SELECT 1")
	first := fstest.MapFS{"000001_step_1.up.sql": files["000001_step_1.up.sql"]}
	require.NoError(t, migrator(dsn, first).Up(t.Context()))
	m := migrate.New(migrate.Config{URL: dsn, StatementLockTimeout: 50 * time.Millisecond, LockTimeout: 100 * time.Millisecond, Source: files}, nil)

	conn := connect(t, dsn)
	exec(t, conn, "BEGIN; SELECT 1 FROM belfry.one")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := m.Up(ctx)
	require.ErrorContains(t, err, "waited too long for a lock")
	require.ErrorContains(t, err, "nothing was changed")
	require.ErrorContains(t, err, "pg_stat_activity")
	exec(t, conn, "ROLLBACK")
	require.Equal(t, []string{"one"}, tables(t, conn))
	requireAt(t, m, 1)
	require.NoError(t, m.Up(t.Context()), "no repair is needed")
}

func TestMigrationLetsTheUsersOfABusyTableContinue(t *testing.T) {
	dsn := database(t)
	files := source("CREATE TABLE belfry.one (n int)", "DROP TABLE belfry.one",
		"ALTER TABLE belfry.one ADD COLUMN m int", "SELECT 1")
	first := fstest.MapFS{"000001_step_1.up.sql": files["000001_step_1.up.sql"]}
	require.NoError(t, migrator(dsn, first).Up(t.Context()))
	core, logged := observer.New(zap.InfoLevel)
	m := migrate.New(migrate.Config{URL: dsn, StatementLockTimeout: 50 * time.Millisecond, Source: files}, zap.New(core))

	holder, user := connect(t, dsn), connect(t, dsn)
	exec(t, holder, "BEGIN; SELECT 1 FROM belfry.one")
	done := inBackground(func() error { return m.Up(t.Context()) })
	const waits = "the migration waits for a table that another session uses"
	require.Eventually(t, func() bool { return logged.FilterMessage(waits).Len() > 0 }, patience, 5*time.Millisecond)
	require.Contains(t, logged.FilterMessage(waits).All()[0].ContextMap()["oldest_user"], "one, pid "+strconv.Itoa(int(holder.PgConn().PID())))
	exec(t, user, "SET statement_timeout = '5s'")
	for range 20 {
		exec(t, user, "SELECT 1 FROM belfry.one")
	}
	exec(t, holder, "ROLLBACK")
	require.NoError(t, result(t, done))
	requireAt(t, m, 2)
}

func TestKilledConnectionLeavesNothingButTheMark(t *testing.T) {
	dsn := database(t)
	g, m := newGate(t, dsn), migrator(dsn, gated())
	done := inBackground(func() error { return m.Up(t.Context()) })
	exec(t, g.conn, "SELECT pg_terminate_backend($1)", g.waiting(t))
	err := result(t, done)
	require.ErrorContains(t, err, "connection was lost")
	require.ErrorContains(t, err, "belfry migrate status")
	g.open(t)
	require.Empty(t, tables(t, g.conn))
	follow(t, m, func() error { return m.Check(t.Context()) })
	require.NoError(t, m.Up(t.Context()))
}

// The process dies, but Postgres does not notice this and commits the migration. The record must be committed with it.
func TestMigrationThatOutlivesItsProcessIsRecorded(t *testing.T) {
	dsn := database(t)
	g, m := newGate(t, dsn), migrator(dsn, gated())
	via, cutClient, cutServer := proxy(t, dsn)
	done := inBackground(func() error { return migrator(via, gated()).Up(t.Context()) })
	g.waiting(t)
	cutClient()
	require.Error(t, result(t, done))

	var locked *migrate.LockedError
	require.ErrorAs(t, m.Check(t.Context()), &locked, "the migration still runs on the server")
	g.open(t)
	require.Eventually(t, func() bool { return m.Check(t.Context()) == nil }, patience, 5*time.Millisecond)
	cutServer()
	requireAt(t, m, 1)
	require.Equal(t, []string{"after", "before"}, tables(t, g.conn))
	require.NoError(t, m.Up(t.Context()))
}

// proxy forwards one connection between a client and Postgres. The test can cut each half of the connection.
func proxy(t *testing.T, dsn string) (via string, cutClient, cutServer func()) {
	t.Helper()
	cc, err := pgx.ParseConfig(dsn)
	require.NoError(t, err)
	network, address := "tcp", net.JoinHostPort(cc.Host, strconv.Itoa(int(cc.Port)))
	if cc.Host[0] == '/' {
		network, address = "unix", cc.Host+"/.s.PGSQL."+strconv.Itoa(int(cc.Port))
	}
	server, err := new(net.Dialer).DialContext(t.Context(), network, address)
	require.NoError(t, err)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)

	clients := make(chan net.Conn, 1)
	var group sync.WaitGroup
	group.Go(func() {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		clients <- client
		group.Go(func() { _, _ = io.Copy(server, client) })
		_, _ = io.Copy(client, server)
	})
	cutServer = sync.OnceFunc(func() { _ = server.Close() })
	cutClient = sync.OnceFunc(func() {
		_ = listener.Close()
		select {
		case client := <-clients:
			_ = client.Close()
		default:
		}
	})
	t.Cleanup(func() { cutClient(); cutServer(); group.Wait() })

	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(cc.User, cc.Password), Host: listener.Addr().String(),
		Path: cc.Database, RawQuery: "sslmode=disable",
	}
	return u.String(), cutClient, cutServer
}
