//go:build installed

package integration_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/app"
	"github.com/belfry-mq/belfry/pkg/insight/doctor"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/postgres/migrate"
	"github.com/belfry-mq/belfry/test/pgtest"
	"github.com/belfry-mq/belfry/test/stopwatch"
)

// pooled is the number of sessions of each pool in these tests.
const pooled = 12

// TestPoolerInSessionMode runs a server whose only way to Postgres is a pooler in session mode.
func TestPoolerInSessionMode(t *testing.T) {
	t.Parallel()
	direct := pgtest.DatabaseWithoutSchema(t)
	s := startOn(t, startPooler(t, direct)("session"), proven, func(cfg *config.Config) { cfg.Database.PoolSize = 3 })
	c := s.client(t)
	waiting := c.begin(anyOf("q"))
	s.untilParked(t, "q", 1)
	execute(t, producer(t, direct), `INSERT INTO belfry.inbox (queue, payload) VALUES ('q', '1')`)
	require.Len(t, waiting.delivery().ok(http.StatusOK).Messages, 1)

	// While the sequencer is awake, an open transaction inserts a row without a notification. The sequencer must wait for
	// that transaction before it sleeps. When many inserts follow, it must stop waiting.
	open, other := producer(t, direct), producer(t, direct)
	send := func(conn *pgx.Conn) {
		execute(t, conn, `INSERT INTO belfry.inbox (queue, payload) VALUES ('another', '1')`)
	}
	until(t, "a transaction with a row and without a notification is open", func() (silent bool) {
		for range 20 {
			send(other)
		}
		execute(t, open, `BEGIN`)
		send(open)
		require.NoError(t, open.QueryRow(t.Context(), `SELECT EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid())
			AND NOT EXISTS (SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')`).Scan(&silent))
		if !silent {
			execute(t, open, `ROLLBACK`)
		}
		return silent
	})
	waits := func() (waits bool) {
		require.NoError(t, other.QueryRow(t.Context(),
			`SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory')`).Scan(&waits))
		return waits
	}
	until(t, "the sequencer waits", waits)
	watch := stopwatch.Start(t)
	until(t, "the sequencer no longer waits", func() bool {
		for range 20 {
			send(other)
		}
		return !waits()
	})
	watch.Within(t, patience/3, "time until the sequencer no longer waits")
	execute(t, open, `ROLLBACK`)
}

// TestPoolerInTransactionMode shares the sessions of the pooler with other programs. Belfry must leave no settings and no
// prepared statements in these sessions.
func TestPoolerInTransactionMode(t *testing.T) {
	t.Parallel()
	direct := pgtest.DatabaseWithoutSchema(t)
	pool := startPooler(t, direct)
	dsn := pool("transaction")
	require.ErrorIs(t, migrate.New(migrate.Config{URL: dsn}, nil).Up(t.Context()), postgres.ErrTransactionPooled)

	s := startOn(t, dsn, proven, func(cfg *config.Config) { cfg.Database.ListenURL = setting.Secret(direct) })
	c := s.client(t)
	const clients, each = 8, 20
	pushTogether(t, clients, each, s)
	for popped := 0; popped < clients*each; {
		popped += len(c.popIDs("q", "batch=7&autoAck=true&wait=true&timeout=20000"))
	}

	var strangers []*pgx.Conn
	for range pooled { // all transactions are open at the same time, so each has another session
		stranger := producer(t, dsn+"&default_query_exec_mode=simple_protocol")
		execute(t, stranger, "BEGIN")
		strangers = append(strangers, stranger)
	}
	for _, stranger := range strangers {
		var set, prepared int
		require.NoError(t, stranger.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM pg_settings WHERE source = 'session'
			AND name NOT IN ('application_name', 'client_encoding', 'DateStyle', 'TimeZone', 'standard_conforming_strings')),
			(SELECT count(*) FROM pg_prepared_statements)`).Scan(&set, &prepared))
		require.Zero(t, set)
		require.Zero(t, prepared)
		execute(t, stranger, "ROLLBACK")
	}
}

// TestPoolerBesideOthers connects repeatedly while other clients use the pooler. Each time, it must detect the pooler.
func TestPoolerBesideOthers(t *testing.T) {
	t.Parallel()
	dsn := startPooler(t, pgtest.DatabaseWithoutSchema(t))("transaction")
	ctx, cancel := context.WithCancel(t.Context())
	var others sync.WaitGroup
	defer others.Wait()
	defer cancel()
	for range 4 {
		other := producer(t, dsn)
		others.Go(func() {
			for ctx.Err() == nil {
				_, _ = other.Exec(ctx, "SELECT pg_sleep(0.001)", pgx.QueryExecModeSimpleProtocol)
			}
		})
	}
	for range 1000 {
		conn, err := pgx.Connect(t.Context(), dsn)
		require.NoError(t, err)
		found, err := postgres.TransactionPooled(t.Context(), conn)
		require.NoError(t, err)
		require.True(t, found)
		require.NoError(t, conn.Close(t.Context()))
	}
}

// TestPoolerWithForeignSettings requires an error with a statement that solves the problem. It runs the statement, and then
// the connection must succeed.
func TestPoolerWithForeignSettings(t *testing.T) {
	t.Parallel()
	direct := pgtest.DatabaseWithoutSchema(t)
	pgtest.Set(t, direct, map[string]string{"default_transaction_isolation": "serializable", "timezone": "'Asia/Kolkata'", "synchronous_commit": "local"})
	pool := startPooler(t, direct)
	open := func() error {
		cfg := postgres.DefaultConfig()
		cfg.URL = setting.Secret(pool("transaction"))
		p, err := postgres.Open(t.Context(), cfg, "belfry-test", 0)
		require.NoError(t, err)
		defer p.Close()
		return p.Wait(t.Context(), patience, zap.NewNop())
	}
	err := open()
	require.ErrorContains(t, err, "default_transaction_isolation is 'serializable'")
	require.NotContains(t, err.Error(), "timezone", "the error must not name timezone, because the pooler preserves it")
	_, cure, found := strings.Cut(err.Error(), "ALTER ROLE ")
	require.True(t, found)
	cure, _, _ = strings.Cut(cure, ";")
	execute(t, producer(t, direct), "ALTER ROLE "+cure)
	execute(t, producer(t, pool("pgbouncer")+"&default_query_exec_mode=simple_protocol"), "RECONNECT")
	require.NoError(t, open())
}

// TestPoolerWithOneSession detects the mode of a pooler that has no second session.
func TestPoolerWithOneSession(t *testing.T) {
	t.Parallel()
	pool := startPooler(t, pgtest.DatabaseWithoutSchema(t))
	for mode, want := range map[string]error{"session-1": nil, "transaction-1": postgres.ErrTransactionPooled} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			watch := stopwatch.Start(t)
			require.ErrorIs(t, migrate.New(migrate.Config{URL: pool(mode)}, nil).Up(t.Context()), want)
			watch.Within(t, patience/2, "time until the pooler is detected")
		})
	}
}

// startPooler starts a PgBouncer in front of the database of dsn. It returns a function that returns the DSN for a pool
// mode. The modes "session-1" and "transaction-1" have only one session.
func startPooler(t *testing.T, dsn string) func(mode string) string {
	t.Helper()
	target, err := pgx.ParseConfig(dsn)
	require.NoError(t, err)
	databases := map[string]string{}
	for _, mode := range []string{"session", "transaction"} {
		way := fmt.Sprintf("host=%s port=%d dbname=%s user=%s pool_mode=%s", target.Host, target.Port, target.Database, target.User, mode)
		databases[mode], databases[mode+"-1"] = way, way+" pool_size=1"
	}
	pooler, err := pgtest.StartPooler(t.Context(), t.TempDir(), databases, pooled)
	require.NoError(t, err)
	t.Cleanup(func() {
		if log := pooler.Close(); t.Failed() {
			t.Log(log)
		}
	})
	return pooler.URL
}

// The doctor must report a pooler in transaction mode on the direct connection. On the connection of the pool such a pooler
// is allowed.
func TestPoolerIsFoundByTheDoctor(t *testing.T) {
	t.Parallel()
	direct := pgtest.Database(t)
	pool := startPooler(t, direct)
	for _, c := range []struct {
		url, listen string
		want        []string
	}{
		{pool("transaction"), "", []string{"pooler_mode", lossy}},
		{pool("transaction"), direct, []string{lossy}},
		{pool("session"), "", []string{lossy}},
	} {
		cfg := config.Default()
		cfg.Database.URL, cfg.Database.ListenURL = setting.Secret(c.url), setting.Secret(c.listen)
		codes, found := problems(doctor.New(app.DoctorConfig(cfg, nil)).Run(t.Context()))
		require.ElementsMatch(t, c.want, codes, found)
	}
}
