package listen_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zapcore"

	"github.com/belfry-mq/belfry/pkg/listen"
	"github.com/belfry-mq/belfry/test/pgproxy"
	"github.com/belfry-mq/belfry/test/pgtest"
)

func TestATerminatedListenerReconnectsWithinASecond(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DatabaseWithoutSchema(t)
	a := startProven(t, dsn, dsn, listen.DefaultConfig())
	conn := connect(t, dsn)
	for round := range int64(3) {
		ended := time.Now()
		terminate(t, conn, "belfry-listen")
		require.Equal(t, listen.StateReconnecting, a.next(t).state)
		require.Equal(t, "the listener reconnected", a.next(t).resync)
		back := a.next(t)
		require.Equal(t, listen.StateProven, back.state)
		require.Less(t, back.at.Sub(ended), time.Second)
		require.Equal(t, round+1, a.listener.Reconnects())
	}
	require.Equal(t, 3, a.logged(zapcore.WarnLevel), "one line per outage: %v", a.logs.All())
}

// Postgres considers a listening session idle.
func TestIdleSessionTimeoutDoesNotEndTheListener(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DatabaseWithoutSchema(t)
	pgtest.Set(t, dsn, map[string]string{"idle_session_timeout": "50"})
	a := startProven(t, dsn, dsn, listen.DefaultConfig())
	watcher := connect(t, dsn+"&options=-c%20idle_session_timeout%3D0")
	const listening = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'belfry-listen'
	   AND state = 'idle' AND clock_timestamp() > state_change + interval '100 ms'`
	require.Eventually(t, func() bool {
		var idle int
		return watcher.QueryRow(t.Context(), listening).Scan(&idle) == nil && idle > 0
	}, 10*time.Second, 10*time.Millisecond)
	require.Zero(t, a.listener.Reconnects())
}

func TestAFrozenConnectionIsNoticed(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DatabaseWithoutSchema(t)
	network, through := pgproxy.New(t, dsn)
	cfg := fastCanaries()
	a := startProven(t, through, dsn, cfg)
	frozen := time.Now()
	network.FreezeOld()
	lost := a.waitState(t, listen.StateReconnecting)
	require.Less(t, lost.at.Sub(frozen), cfg.CanaryInterval+cfg.CanaryTimeout+5*time.Second)
	require.Equal(t, "the listener reconnected", a.waitResync(t).resync)
	back := a.waitState(t, listen.StateProven)
	require.Less(t, back.at.Sub(lost.at), time.Second)
	b := startProven(t, dsn, dsn, cfg)
	b.sender.Send(listen.Ready(1, 2, time.Time{}))
	require.Equal(t, b.id, a.waitMessage(t).Instance)
}

// Neither existing nor new connections work, for longer than PeerTimeout. The peer must
// not expire, because it is the network that is silent.
func TestAFrozenNetworkIsNoticedAndSurvived(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DatabaseWithoutSchema(t)
	network, through := pgproxy.New(t, dsn)
	through += "&connect_timeout=1"
	cfg := fastCanaries()
	cfg.PeerTimeout = 1500 * time.Millisecond
	a, b := startProven(t, through, dsn, cfg), startProven(t, dsn, dsn, cfg)
	b.sender.SendCreated()
	a.waitMessage(t)
	require.Equal(t, 1, a.listener.Peers())
	thaw := network.Freeze()
	a.waitState(t, listen.StateReconnecting)
	links := network.Links.Load()
	require.Eventually(t, func() bool { return network.Links.Load() >= links+3 }, patience, 10*time.Millisecond,
		"two attempts must have timed out")
	require.False(t, a.listener.Proven())
	thaw()
	require.Equal(t, "the listener reconnected", a.next(t).resync)
	require.Equal(t, listen.StateProven, a.next(t).state)
	b.sender.SendCreated()
	require.True(t, a.next(t).message.CatalogChanged)
	require.Equal(t, 1, a.listener.Peers())
}

func TestAListenWithoutAnswerTimesOut(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DatabaseWithoutSchema(t)
	network, through := pgproxy.New(t, dsn)
	network.Stall.Store(true)
	a := start(t, through+"&connect_timeout=1", dsn, fastCanaries())
	require.Equal(t, listen.StateReconnecting, a.next(t).state)
	lines := a.logs.FilterLevelExact(zapcore.WarnLevel).All()
	require.Len(t, lines, 1)
	require.Equal(t, "LISTEN did not answer in time", lines[0].ContextMap()["error"])
	network.Stall.Store(false)
	a.waitState(t, listen.StateProven)
}

func TestStoppingOnAFrozenNetworkDoesNotHang(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DatabaseWithoutSchema(t)
	network, through := pgproxy.New(t, dsn)
	a := startProven(t, through, through, listen.DefaultConfig())
	defer network.Freeze()()
	a.sender.SendCreated()
	started := time.Now()
	a.stopListener()
	require.Less(t, time.Since(started), time.Second)
	started = time.Now()
	a.stopSender()
	require.Less(t, time.Since(started), listen.DefaultConfig().StopTimeout+2*time.Second)
	require.Equal(t, 1, a.logs.FilterMessageSnippet("the last notifications were not sent").Len())
}

func TestPostgresKilledAndRestarted(t *testing.T) {
	t.Parallel()
	cluster := pgtest.OwnCluster(t)
	dsn := cluster.URL("postgres")
	a, b := startProven(t, dsn, dsn, listen.DefaultConfig()), startProven(t, dsn, dsn, listen.DefaultConfig())
	require.NoError(t, cluster.Kill())
	a.waitState(t, listen.StateReconnecting)
	b.waitState(t, listen.StateReconnecting)
	a.sender.Send(listen.Ready(3, 4, time.Time{})) // kept until the database runs again
	require.NoError(t, cluster.Restart(t.Context()))
	accepts := time.Now()
	for _, i := range []*instance{a, b} {
		require.Equal(t, "the listener reconnected", i.waitResync(t).resync)
		require.Less(t, i.waitState(t, listen.StateProven).at.Sub(accepts), 2*time.Second)
	}
	b.sender.Send(listen.Ready(1, 2, time.Time{}))
	require.Equal(t, b.id, a.waitMessage(t).Instance)
	a.stopSender()
	require.EqualValues(t, 1, a.sender.Counts().EntriesOut)
}

func TestADeafListenerIsLoggedOnce(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DatabaseWithoutSchema(t)
	pooler, through := pgproxy.New(t, dsn)
	pooler.Swallow.Store(true)
	cfg := fastCanaries()
	a := start(t, through, dsn, cfg)
	connected := a.waitResync(t)
	deaf := a.next(t)
	require.Equal(t, listen.StateDeaf, deaf.state)
	require.InDelta(t, cfg.CanaryTimeout, deaf.at.Sub(connected.at), float64(500*time.Millisecond))
	require.False(t, a.listener.Proven())

	// The listener tries again, slowly and without another log line.
	require.Equal(t, "the listener reconnected", a.next(t).resync)
	again := a.next(t)
	require.Equal(t, "the listener reconnected", again.resync, "the state stayed deaf")
	require.Greater(t, again.at.Sub(deaf.at), cfg.CanaryInterval+cfg.CanaryTimeout)
	loud := a.logs.FilterLevelExact(zapcore.ErrorLevel).All()
	require.Len(t, loud, 1)
	require.Contains(t, loud[0].Message, "Set database.listen_url")
	require.Zero(t, a.logged(zapcore.WarnLevel))

	pooler.Swallow.Store(false)
	a.waitState(t, listen.StateProven)
}

func TestWithoutASenderTheListenerIsNotProven(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DatabaseWithoutSchema(t)
	a := prepare(t, dsn, dsn, fastCanaries())
	run(t, a.listener.Run)
	require.Equal(t, "the listener connected", a.next(t).resync)
	require.Equal(t, listen.StateReconnecting, a.next(t).state)
	require.Zero(t, a.logged(zapcore.ErrorLevel), "not deaf: no canary was sent")
	run(t, a.sender.Run)
	require.Equal(t, listen.StateProven, a.next(t).state)
	require.Zero(t, a.listener.Reconnects(), "the connection stayed open")
}

func TestAListenerWithoutCanariesIsNotProven(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DatabaseWithoutSchema(t)
	network, through := pgproxy.New(t, dsn)
	a := startProven(t, dsn, through, fastCanaries())
	thaw := network.Freeze()
	require.Equal(t, listen.StateReconnecting, a.next(t).state)
	require.Equal(t, "the listener lost its proof", a.next(t).resync)
	state, since := a.listener.State()
	require.Equal(t, listen.StateReconnecting, state)
	require.GreaterOrEqual(t, since, fastCanaries().CanaryInterval)
	thaw()
	require.Equal(t, listen.StateProven, a.next(t).state)
	require.Zero(t, a.listener.Reconnects())
}

// With a missing synchronous standby, every commit that waits for it hangs. A
// notification must not wait.
func TestANotificationDoesNotWaitForAStandby(t *testing.T) {
	t.Parallel()
	cluster := pgtest.OwnCluster(t)
	dsn := cluster.URL("postgres")
	conn := connect(t, dsn)
	exec(t, conn, "CREATE TABLE note (id int)")
	exec(t, conn, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
	exec(t, conn, "SELECT pg_reload_conf()")
	hangs := func() bool {
		// Cancelling the wait yields a warning, and the commit succeeds.
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		other, err := pgx.Connect(t.Context(), dsn)
		require.NoError(t, err)
		_, err = other.Exec(ctx, "INSERT INTO note VALUES (1)")
		_ = other.Close(t.Context()) // closed already when the insert was given up
		<-other.PgConn().CleanupDone()
		return err != nil
	}
	require.Eventually(t, hangs, patience, 10*time.Millisecond, "the reload takes a moment to reach all sessions")
	a := startProven(t, dsn, dsn, listen.DefaultConfig())
	require.Zero(t, a.sender.Counts().Failures)
}
