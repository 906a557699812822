package integration_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/test/pgproxy"
	"github.com/belfry-mq/belfry/test/pgtest"
	"github.com/belfry-mq/belfry/test/stopwatch"
)

// These are the longest times between a fault and the delivery of a message.
const (
	// afterSilence applies if a peer or a connection falls silent.
	afterSilence = 8 * time.Second
	// afterKill applies if the connection of the listener was closed.
	afterKill = time.Second
	// afterRestart applies if Postgres was restarted. It counts from the instant when Postgres accepts connections again.
	afterRestart = 2 * time.Second
)

// soonSilent shortens the timeouts, so that a server notices a silent peer or connection in about half of the usual time.
func soonSilent(c *config.Config) {
	c.Listen.CanaryInterval, c.Listen.PeerTimeout = 2*time.Second, 6*time.Second
}

// TestFaults breaks the wakes in several ways. A waiting pop must still receive its message in time. Polling cannot help,
// because the fallback interval is an hour.
func TestFaults(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(t *testing.T){
		"killed between commit and wake":   killedBeforeWake,
		"killed between wake and notify":   killedBeforeNotify,
		"listener's connection is killed":  listenerKilled,
		"listener's connection is frozen":  listenerFrozen,
		"Postgres is killed and restarted": postgresRestarted,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fault(t)
		})
	}
}

// waitFor begins a pop that waits at s. ready_at of the cursor of the queue is NULL.
func waitFor(t *testing.T, s *server, queue string) *pendingCall {
	t.Helper()
	c := s.client(t)
	c.pushIDs(queue, "", "old")
	c.pop(queue, "").ok(http.StatusOK)
	finish(c, queue, "completed")
	waiting := c.begin(anyOf(queue))
	s.untilParked(t, queue, 1)
	return waiting
}

// inTime requires that message m is delivered within promise.
func inTime(t *testing.T, waiting *pendingCall, since *stopwatch.Stopwatch, promise time.Duration) {
	t.Helper()
	got := waiting.delivery().ok(http.StatusOK)
	t.Logf("delivered after %s", since.Elapsed().Round(time.Millisecond))
	since.Within(t, promise, "time until the waiting pop gets its message")
	require.Equal(t, []string{"m"}, got.ids())
}

// The test locks the cursor, so the wake after the commit blocks until the test kills the instance. The test also ends the
// database session of the instance, as the kernel of a dead machine would.
func killedBeforeWake(t *testing.T) {
	witness := start(t, proven, soonSilent)
	victim := startChild(t, witness.dsn, witness.dsn)
	witness.untilProven(t, 1)
	waiting := waitFor(t, witness, "q")
	before := probes(t, witness)
	// The healer scans once at the start of the instance. The test waits until these scans are over, so that they cannot
	// help.
	until(t, "the first scans of the healer are over", func() bool { return witness.metric(t, "belfry_heals_total") >= 2 })

	conn, err := pgx.Connect(t.Context(), witness.dsn)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.WithoutCancel(t.Context()))) }()
	lock, err := conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = lock.Exec(t.Context(), `SELECT 1 FROM belfry.cursor FOR UPDATE`)
	require.NoError(t, err)

	pushed := victim.begin(pushCall(item{Queue: "q", TransactionID: "m"}))
	var backend int
	until(t, "the wake waits for the cursor", func() bool {
		witness.scan(t, `SELECT coalesce(max(pid), 0) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`, nil, &backend)
		return backend != 0
	})
	var stored bool
	witness.scan(t, `SELECT EXISTS (SELECT 1 FROM belfry.message WHERE transaction_id = 'm')`, nil, &stored)
	require.True(t, stored, "the push must be committed")
	killed := stopwatch.Start(t)
	require.NoError(t, victim.process.Kill())
	witness.scan(t, `SELECT pg_terminate_backend($1)`, []any{backend}, nil)
	until(t, "the session has ended", func() bool {
		var live bool
		witness.scan(t, `SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE pid = $1)`, []any{backend}, &live)
		return !live
	})
	require.NoError(t, lock.Rollback(t.Context()))
	pushed.ends()
	require.Error(t, pushed.err)

	inTime(t, waiting, killed, afterSilence)
	// One probe follows the silence, and one follows the heal. Two more are allowed for a busy machine. Periodic polling
	// would cause more.
	require.LessOrEqual(t, probes(t, witness)-before, 4)
}

// The test freezes the network of the instance and then kills the instance. So the instance dies before its notification is
// sent.
func killedBeforeNotify(t *testing.T) {
	witness := start(t, proven, soonSilent)
	network, through := pgproxy.New(t, witness.dsn)
	victim := startChild(t, witness.dsn, through)
	witness.untilProven(t, 1)
	waiting := waitFor(t, witness, "q")
	before := probes(t, witness)
	network.Freeze()
	victim.pushIDs("q", "", "m")
	killed := stopwatch.Start(t)
	require.NoError(t, victim.process.Kill())
	inTime(t, waiting, killed, afterSilence)
	require.LessOrEqual(t, probes(t, witness)-before, 4)
}

// probes returns the number of probes for waiting requests.
func probes(t *testing.T, s *server) int {
	t.Helper()
	return int(s.metric(t, "belfry_smart_poll_preflight_queries_total") +
		s.metric(t, `belfry_dispatch_wakes_total{outcome="spurious",source="sweep"}`) +
		s.metric(t, `belfry_dispatch_wakes_total{outcome="spurious",source="fallback"}`))
}

func listenerKilled(t *testing.T) {
	here := start(t, proven)
	there := startOn(t, here.dsn, proven)
	here.untilProven(t, 1)
	waiting := waitFor(t, here, "q")
	var ended int
	here.scan(t, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE datname = current_database() AND application_name = 'belfry-listen'`, nil, &ended)
	require.Equal(t, 2, ended)
	killed := stopwatch.Start(t)
	there.client(t).pushIDs("q", "", "m")
	inTime(t, waiting, killed, afterKill)
	here.untilProven(t, 1)
}

func listenerFrozen(t *testing.T) {
	dsn := pgtest.Database(t)
	network, through := pgproxy.New(t, dsn)
	here := startOn(t, dsn, proven, soonSilent, listenOn(through))
	there := startOn(t, dsn, proven, soonSilent)
	here.untilProven(t, 1)
	there.untilProven(t, 1)
	waiting := waitFor(t, here, "q")
	frozen := stopwatch.Start(t)
	thaw := network.Freeze()
	defer thaw()
	there.client(t).pushIDs("q", "", "m")
	inTime(t, waiting, frozen, afterSilence)
}

func postgresRestarted(t *testing.T) {
	cluster := pgtest.OwnCluster(t)
	require.NoError(t, cluster.CreateDatabase(t.Context(), "faults"))
	here := startOn(t, cluster.URL("faults"), proven)
	there := startOn(t, cluster.URL("faults"), proven)
	here.untilProven(t, 1)
	waiting := waitFor(t, here, "q")
	require.NoError(t, cluster.Kill())
	ended := waiting.delivery() // the waiting pop must be answered with 503
	require.Equal(t, http.StatusServiceUnavailable, ended.Status)

	// The producer and the consumer repeat their requests until they succeed.
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var refused atomic.Int64
	again := func(s *server, what call, wanted int) *pendingCall {
		b := &pendingCall{t: t, done: make(chan struct{})}
		go func() {
			defer close(b.done)
			pause := time.NewTicker(lookInterval)
			defer pause.Stop()
			for {
				b.reply, b.err = s.send(ctx, what)
				if b.err != nil || b.reply.Status == wanted {
					return
				}
				refused.Add(1)
				<-pause.C
			}
		}()
		return b
	}
	pushed := again(there, pushCall(item{Queue: "q", TransactionID: "m"}), http.StatusCreated)
	waiting = again(here, anyOf("q"), http.StatusOK)
	until(t, "at least four requests have been refused", func() bool { return refused.Load() >= 4 })
	require.NoError(t, cluster.Restart(t.Context()))
	inTime(t, waiting, stopwatch.Start(t), afterRestart)
	<-pushed.done
	require.NoError(t, pushed.err)
}
