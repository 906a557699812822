package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/pgtest"
)

func TestEverySessionHasTheSettings(t *testing.T) {
	dsn := database(t)
	pgtest.Set(t, dsn, pgtest.ForeignSettings())
	pool := open(t, config(dsn, func(c *postgres.Config) { c.RequestTimeout = 7 * time.Second }))
	var conns []*pgxpool.Conn
	for range 3 { // every new session has the settings, not only the first session
		conn, err := pool.Acquire(soon(t))
		require.NoError(t, err)
		defer conn.Release()
		conns = append(conns, conn)
	}
	for _, conn := range conns {
		for name, want := range map[string]string{
			"timezone": "UTC", "plan_cache_mode": "force_generic_plan", "jit": "off",
			"enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off", "enable_bitmapscan": "off",
			"enable_nestloop": "on", "enable_indexscan": "on", "enable_indexonlyscan": "on",
			"default_transaction_isolation": "read committed", "search_path": "pg_catalog, pg_temp", "client_encoding": "UTF8",
			"standard_conforming_strings": "on", "quote_all_identifiers": "off", "transform_null_equals": "off", "array_nulls": "on",
			"DateStyle": "ISO, MDY", "IntervalStyle": "postgres", "bytea_output": "hex", "extra_float_digits": "1",
			"lock_timeout": "0", "idle_session_timeout": "0", "synchronous_commit": "on",
			"idle_in_transaction_session_timeout": "7s", "statement_timeout": "7s",
			"application_name": "belfry-test",
		} {
			var have string
			require.NoError(t, conn.QueryRow(soon(t), "SELECT current_setting($1)", name).Scan(&have))
			require.Equal(t, want, have, name)
		}
	}
}

func TestApplicationNameOfTheURLWins(t *testing.T) {
	pool := open(t, config(database(t)+"&application_name=mine"))
	var have string
	require.NoError(t, pool.QueryRow(soon(t), "SHOW application_name").Scan(&have))
	require.Equal(t, "mine", have)
}

func TestStatementThatTakesTooLongIsEnded(t *testing.T) {
	pool := open(t, config(database(t), func(c *postgres.Config) {
		c.RequestTimeout, c.PoolSize = time.Second, 1 // also the time to connect
	}))
	var before, after int
	require.Eventually(t, func() bool {
		return pool.QueryRow(soon(t), "SELECT pg_backend_pid()").Scan(&before) == nil
	}, patience, time.Millisecond)
	_, err := pool.Exec(soon(t), "SELECT pg_sleep(600)")
	require.Equal(t, "57014", postgres.SQLState(err), "the database canceled the statement: %v", err)
	require.Equal(t, queue.CodeUnavailable, queue.CodeOf(postgres.Wrap(err)))
	require.NoError(t, pool.QueryRow(soon(t), "SELECT pg_backend_pid()").Scan(&after))
	require.Equal(t, before, after, "the connection is still usable")
}

func TestPoolSizeIsBounded(t *testing.T) {
	pool := open(t, config(database(t), func(c *postgres.Config) { c.PoolSize = 2 }))
	require.Equal(t, int32(2), pool.Config().MaxConns)
	for range 2 {
		conn, err := pool.Acquire(soon(t))
		require.NoError(t, err)
		defer conn.Release()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := pool.Acquire(ctx)
	require.Equal(t, queue.CodeUnavailable, queue.CodeOf(postgres.Wrap(err)))
}

type key struct{}

func TestBoundedOutlivesTheClientButNotTheTimeout(t *testing.T) {
	t.Parallel()
	pool := open(t, config("postgres://u@"+unusedAddress(t)+"/d", func(c *postgres.Config) { c.RequestTimeout = 50 * time.Millisecond }))
	parent, leave := context.WithDeadline(context.WithValue(t.Context(), key{}, "kept"), time.Now().Add(-time.Hour))
	leave()
	require.Error(t, parent.Err())
	before := time.Now()
	ctx, cancel := pool.Bounded(parent)
	defer cancel()
	require.NoError(t, ctx.Err())
	require.Equal(t, "kept", ctx.Value(key{}))
	deadline, ok := ctx.Deadline()
	require.True(t, ok)
	require.WithinRange(t, deadline, before.Add(50*time.Millisecond), time.Now().Add(50*time.Millisecond))
	<-ctx.Done()
	require.Equal(t, context.DeadlineExceeded, ctx.Err())

	ctx, cancel = pool.Bounded(t.Context())
	cancel()
	require.Equal(t, context.Canceled, ctx.Err(), "cancel ends the context")
}

func TestUnreadableURLIsAnErrorWithoutThePassword(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{
		"postgres://u:s3cret@h:port/d", "postgres://u:s3cret@h:99999999/d", "postgres://u:s3cret@h/d?sslmode=maybe",
		"host=h password=s3cret port=x", "host=h password='s3cret", "postgres://u:s3cret@h/d?pool_max_conns=x",
		"postgres://u@h/d?password=s3cret&sslmode=maybe", "host=h password=s3cret sslmode=maybe",
	} {
		_, err := postgres.Open(t.Context(), config(dsn), "belfry-test", 0)
		require.ErrorContains(t, err, "database.url", dsn)
		require.NotContains(t, err.Error(), "s3cret", dsn)
	}
}

func TestValidateNamesAllInvalidValues(t *testing.T) {
	t.Parallel()
	require.NoError(t, postgres.DefaultConfig().Validate())
	err := postgres.Config{StartTimeout: -1}.Validate()
	for _, key := range []string{"pool_size is 0", "start_timeout is -1ns", "request_timeout is 0s", "migrate_lock_timeout is 0s"} {
		require.ErrorContains(t, err, "database."+key)
	}
	cfg := postgres.DefaultConfig()
	for size, good := range map[int32]bool{1: true, 10000: true, 10001: false} {
		cfg.PoolSize = size
		require.Equal(t, good, cfg.Validate() == nil, "%d", size)
	}
}

// The operator may choose every synchronous_commit that keeps a commit after a crash.
func TestDurableSynchronousCommitIsKept(t *testing.T) {
	t.Parallel()
	for _, theirs := range []string{"local", "remote_write", "remote_apply"} {
		dsn := pgtest.DatabaseWithoutSchema(t)
		pgtest.Set(t, dsn, map[string]string{"synchronous_commit": theirs})
		var ours string
		require.NoError(t, open(t, config(dsn)).QueryRow(soon(t), "SHOW synchronous_commit").Scan(&ours))
		require.Equal(t, theirs, ours)
	}
}

// If the pool does not detect a pooler in transaction mode, a missing prepared statement reveals the pooler. After that the pool
// prepares no statements.
func TestAMissingPreparedStatementRevealsAPooler(t *testing.T) {
	pool := open(t, config(database(t), func(c *postgres.Config) { c.PoolSize = 1 }))
	ask := func() (int, error) {
		var answer int
		err := pool.QueryRow(soon(t), "SELECT $1::int", 7).Scan(&answer)
		return answer, postgres.Wrap(err)
	}
	_, err := ask()
	require.NoError(t, err)
	_, err = pool.Exec(soon(t), "DEALLOCATE ALL", pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
	require.False(t, pool.TransactionPooled())
	_, err = ask()
	require.Equal(t, queue.CodeUnavailable, queue.CodeOf(err))
	require.True(t, pool.TransactionPooled())

	answer, err := ask()
	require.NoError(t, err)
	require.Equal(t, 7, answer)
	var prepared int
	require.NoError(t, pool.QueryRow(soon(t), "SELECT count(*) FROM pg_prepared_statements").Scan(&prepared))
	require.Zero(t, prepared)
}

func TestDirectURLFallsBackToURL(t *testing.T) {
	t.Parallel()
	require.EqualValues(t, "a", postgres.Config{URL: "a"}.DirectURL())
	require.EqualValues(t, "b", postgres.Config{URL: "a", ListenURL: "b"}.DirectURL())
}

func newPinger(t *testing.T, dsn string) *postgres.Pinger {
	t.Helper()
	p, err := postgres.NewPinger(config(dsn), "belfry-ping")
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

// A pool without a free connection does not delay a ping. All pings use one connection, and replace it
// when it is lost.
func TestPingerHasASeparateConnection(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	pool := open(t, config(dsn, func(cfg *postgres.Config) { cfg.PoolSize = 1 }))
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	p := newPinger(t, dsn)
	pings := func(query string) (n int) {
		t.Helper()
		require.NoError(t, conn.QueryRow(t.Context(), query).Scan(&n))
		return n
	}
	const all = `SELECT count(*) FROM pg_stat_activity WHERE application_name = 'belfry-ping'`
	require.Zero(t, pings(all), "no ping, no connection")
	done := make(chan error)
	for range 10 {
		go func() { done <- p.Ping(soon(t)) }()
	}
	for range 10 {
		require.NoError(t, <-done)
	}
	require.Equal(t, 1, pings(all))
	require.Equal(t, 1, pings(`SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity WHERE application_name = 'belfry-ping'`))
	require.NoError(t, p.Ping(soon(t)), "a lost connection is no failure of the database")
}

func TestPingOfAnAbsentDatabaseFails(t *testing.T) {
	t.Parallel()
	p := newPinger(t, "postgres://u@"+unusedAddress(t)+"/d?sslmode=disable")
	require.Error(t, p.Ping(soon(t)))

	silent, _ := refusing(t, "")
	p = newPinger(t, "postgres://u@"+silent+"/d?sslmode=disable")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, p.Ping(ctx), context.DeadlineExceeded)

	_, err := postgres.NewPinger(config("postgres://u@h:port/d"), "x")
	require.ErrorContains(t, err, "database.url")
}

// When a primary becomes read only, the pool that notices and its related pools retire all connections to it. A connection
// younger than readOnlyAge causes no retirement, because a new connection would lead to the same Postgres.
func TestConnectionsToAReadOnlyPrimaryAreRetired(t *testing.T) {
	dsn := database(t)
	pool := open(t, config(dsn))
	second := openRelated(t, pool, config(dsn))
	session := func(p *postgres.Pool) (pid int) {
		t.Helper()
		require.NoError(t, p.QueryRow(soon(t), "SELECT pg_backend_pid()").Scan(&pid))
		return pid
	}
	related := session(pool)
	began := time.Now()
	noticed := session(second)
	_, err := second.Exec(soon(t), "SET default_transaction_read_only = on")
	require.NoError(t, err)
	for {
		_, err := second.Exec(soon(t), "CREATE TABLE public.t (n int)")
		if err == nil {
			break
		}
		require.Equal(t, "25006", postgres.SQLState(err), "%v", err)
	}
	require.Greater(t, time.Since(began), time.Second, "the connection was young")
	require.NotEqual(t, noticed, session(second))
	require.NotEqual(t, related, session(pool))
}
