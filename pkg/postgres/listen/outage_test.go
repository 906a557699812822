package listen_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zapcore"

	"github.com/belfry-mq/belfry/pkg/postgres/listen"
	"github.com/belfry-mq/belfry/test/pgproxy"
	"github.com/belfry-mq/belfry/test/pgtest"
	"github.com/belfry-mq/belfry/test/stopwatch"
)

func TestATerminatedListenerReconnectsWithinASecond(t *testing.T) {
	dsn := database(t)
	a := startProven(t, dsn, dsn, listen.DefaultConfig())
	conn := connect(t, dsn)
	for round := range int64(3) {
		watch := stopwatch.Start(t)
		terminate(t, conn, "belfry-listen")
		require.Equal(t, listen.StateReconnecting, a.next(t).state)
		require.Equal(t, "the listener reconnected", a.next(t).resync)
		require.Equal(t, listen.StateProven, a.next(t).state)
		watch.Within(t, time.Second, "the listener reconnects")
		require.Equal(t, round+1, a.listener.Reconnects())
	}
	require.Equal(t, 3, a.logged(zapcore.WarnLevel), "one line per outage: %v", a.logs.All())
}

// idle_session_timeout must not end a listening session, which Postgres counts as idle.
func TestIdleSessionTimeoutDoesNotEndTheListener(t *testing.T) {
	dsn := database(t)
	pgtest.Set(t, dsn, map[string]string{"idle_session_timeout": "50"})
	a := startProven(t, dsn, dsn, listen.DefaultConfig())
	watcher := connect(t, dsn+"&options=-c%20idle_session_timeout%3D0")
	const listening = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'belfry-listen'
	   AND state = 'idle' AND clock_timestamp() > state_change + interval '100 ms'`
	require.Eventually(t, func() bool {
		var idle int
		return watcher.QueryRow(t.Context(), listening).Scan(&idle) == nil && idle > 0
	}, patience, 10*time.Millisecond)
	require.Zero(t, a.listener.Reconnects())
}

func TestAFrozenConnectionIsNoticed(t *testing.T) {
	dsn := database(t)
	network, through := pgproxy.New(t, dsn)
	cfg := fastCanaries()
	a := startProven(t, through, dsn, cfg)
	noticing := stopwatch.Start(t)
	network.FreezeOld()
	a.waitState(t, listen.StateReconnecting)
	noticing.Within(t, cfg.CanaryInterval+cfg.CanaryTimeout+time.Second, "the silence is noticed")
	reconnecting := stopwatch.Start(t)
	require.Equal(t, "the listener reconnected", a.waitResync(t).resync)
	a.waitState(t, listen.StateProven)
	reconnecting.Within(t, time.Second, "the listener reconnects")
	b := startProven(t, dsn, dsn, cfg)
	b.sender.Send(listen.Ready(1, 2, time.Time{}))
	require.Equal(t, b.id, a.waitMessage(t).Instance)
}

// For a while, existing connections and new connections do not work. The peer does not expire, because the listener cannot hear
// it during this time.
func TestAFrozenNetworkIsNoticedAndSurvived(t *testing.T) {
	dsn := database(t)
	network, through := pgproxy.New(t, dsn)
	through += "&connect_timeout=1"
	cfg := fastCanaries()
	a, b := startProven(t, through, dsn, cfg), startProven(t, dsn, dsn, cfg)
	b.sender.SendCreated()
	a.waitMessage(t)
	require.Equal(t, 1, a.listener.Peers())
	thaw := network.Freeze()
	a.waitState(t, listen.StateReconnecting)
	links := network.Links.Load()
	require.Eventually(t, func() bool { return network.Links.Load() >= links+2 }, patience, 10*time.Millisecond,
		"an attempt to connect has timed out")
	require.False(t, a.listener.Proven())
	thaw()
	require.Equal(t, "the listener reconnected", a.waitResync(t).resync)
	a.waitState(t, listen.StateProven)
	b.sender.SendCreated()
	require.True(t, a.waitMessage(t).CatalogChanged)
	require.Equal(t, 1, a.listener.Peers())
}

func TestAListenWithoutAnswerTimesOut(t *testing.T) {
	dsn := database(t)
	network, through := pgproxy.New(t, dsn)
	network.Stall.Store(true)
	a := start(t, through+"&connect_timeout=1", dsn, fastCanaries())
	require.Equal(t, listen.StateReconnecting, a.next(t).state)
	require.Eventually(t, func() bool {
		for _, line := range a.logs.All() {
			if line.ContextMap()["error"] == "LISTEN did not answer in time" {
				return true
			}
		}
		return false
	}, patience, 10*time.Millisecond)
	require.Equal(t, 1, a.logged(zapcore.WarnLevel))
	network.Stall.Store(false)
	a.waitState(t, listen.StateProven)
}

func TestStoppingOnAFrozenNetworkDoesNotHang(t *testing.T) {
	dsn := database(t)
	network, through := pgproxy.New(t, dsn)
	cfg := listen.DefaultConfig()
	cfg.StopTimeout = 200 * time.Millisecond
	a := startProven(t, through, through, cfg)
	defer network.Freeze()()
	a.sender.SendCreated()
	watch := stopwatch.Start(t)
	a.stopListener()
	watch.Within(t, time.Second, "the listener stops")
	watch = stopwatch.Start(t)
	a.stopSender()
	watch.Within(t, cfg.StopTimeout+2*time.Second, "the sender stops")
	require.Equal(t, 1, a.logs.FilterMessageSnippet("the last notifications were not sent").Len())
}

func TestPostgresKilledAndRestarted(t *testing.T) {
	t.Parallel()
	cluster := pgtest.OwnCluster(t)
	dsn := cluster.URL("postgres")
	exec(t, connect(t, dsn), "CREATE SCHEMA belfry; CREATE TABLE belfry.channel_key AS SELECT 'a key'::bytea AS key")
	a, b := startProven(t, dsn, dsn, listen.DefaultConfig()), startProven(t, dsn, dsn, listen.DefaultConfig())
	require.NoError(t, cluster.Kill())
	a.waitState(t, listen.StateReconnecting)
	b.waitState(t, listen.StateReconnecting)
	a.sender.Send(listen.Ready(3, 4, time.Time{})) // kept until the database runs again
	require.NoError(t, cluster.Restart(t.Context()))
	watch := stopwatch.Start(t)
	for _, i := range []*instance{a, b} {
		require.Equal(t, "the listener reconnected", i.waitResync(t).resync)
		i.waitState(t, listen.StateProven)
		watch.Within(t, 2*time.Second, "the listeners reconnect")
	}
	b.sender.Send(listen.Ready(1, 2, time.Time{}))
	require.Equal(t, b.id, a.waitMessage(t).Instance)
	a.stopSender()
	require.EqualValues(t, 1, a.sender.Counts().EntriesOut)
}

func TestADeafListenerIsLoggedOnce(t *testing.T) {
	dsn := database(t)
	pooler, through := pgproxy.New(t, dsn)
	pooler.Swallow.Store(true)
	cfg := fastCanaries()
	a := start(t, through, dsn, cfg)
	connected := a.waitResync(t)
	watch := stopwatch.Start(t)
	unheard := a.waitState(t, listen.StateDeaf)
	watch.Within(t, cfg.CanaryTimeout+500*time.Millisecond, "the listener notices that it is deaf")
	require.GreaterOrEqual(t, unheard.at.Sub(connected.at), cfg.CanaryTimeout)
	require.False(t, a.listener.Proven())

	// The listener tries again, with long delays and without another log line.
	require.Equal(t, "the listener reconnected", a.next(t).resync)
	again := a.next(t)
	require.Equal(t, "the listener reconnected", again.resync, "the state stayed deaf")
	require.Greater(t, again.at.Sub(unheard.at), cfg.CanaryInterval+cfg.CanaryTimeout)
	loud := a.logs.FilterLevelExact(zapcore.ErrorLevel).All()
	require.Len(t, loud, 1)
	require.Contains(t, loud[0].Message, "set database.listen_url")
	require.Zero(t, a.logs.FilterMessageSnippet("lost its connection").Len())

	pooler.Swallow.Store(false)
	a.waitState(t, listen.StateProven)
}

// With a missing synchronous standby, every commit that waits for the standby hangs. A notification must not wait.
func TestANotificationDoesNotWaitForAStandby(t *testing.T) {
	t.Parallel()
	cluster := pgtest.OwnCluster(t)
	dsn := cluster.URL("postgres")
	exec(t, connect(t, dsn), "CREATE SCHEMA belfry; CREATE TABLE belfry.channel_key AS SELECT 'a key'::bytea AS key")
	conn := connect(t, dsn)
	exec(t, conn, "CREATE TABLE note (id int)")
	exec(t, conn, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
	exec(t, conn, "SELECT pg_reload_conf()")
	require.Eventually(t, func() bool { return commitHangs(t, dsn, conn) }, patience, 10*time.Millisecond,
		"the reload takes a moment to reach all sessions")
	a := startProven(t, dsn, dsn, listen.DefaultConfig())
	require.Zero(t, a.sender.Counts().Failures)
}

// commitHangs commits in a separate session, and reports whether the commit waits for a standby. Such a commit waits until the
// end of the test.
func commitHangs(t *testing.T, dsn string, watcher *pgx.Conn) bool {
	t.Helper()
	other := connect(t, dsn)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := other.Exec(ctx, "INSERT INTO note VALUES (1)")
		done <- err
	}()
	for {
		select {
		case err := <-done:
			cancel()
			require.NoError(t, err)
			return false
		default:
		}
		var waits int
		require.NoError(t, watcher.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'SyncRep'`,
			other.PgConn().PID()).Scan(&waits))
		if waits > 0 {
			t.Cleanup(func() {
				cancel()
				if err := <-done; err != nil {
					<-other.PgConn().CleanupDone()
				}
			})
			return true
		}
	}
}
