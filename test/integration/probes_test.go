package integration_test

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// probe is the answer of /livez and /readyz.
type probe struct{ Status, Reason string }

// isReady reports whether /readyz answers 200.
func (c client) isReady() bool { return ask[probe](c, get("/readyz")).Status == http.StatusOK }

// freeAddress returns an address on which no server listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return listener.Addr().String()
}

// A server must listen before its database answers. Until then it must answer its probes, and answer 503 to every other
// request.
func TestPortAnswersBeforeTheDatabase(t *testing.T) {
	t.Parallel()
	cluster := pgtest.OwnCluster(t)
	require.NoError(t, cluster.CreateDatabase(t.Context(), "late"))
	require.NoError(t, cluster.Kill())
	addr := freeAddress(t)
	s := launch(t, cluster.URL("late"), func(cfg *config.Config) { cfg.HTTP.Addr = addr })
	s.base = "http://" + addr
	c := s.client(t)
	until(t, "the port listens", func() bool {
		_, err := s.send(t.Context(), get("/livez"))
		return err == nil
	})
	require.Equal(t, "alive", ask[probe](c, get("/livez")).ok(http.StatusOK).Status)
	require.Equal(t, probe{"not_ready", "starting"}, ask[probe](c, get("/readyz")).ok(http.StatusServiceUnavailable))
	health := ask[map[string]any](c, get("/health")).ok(http.StatusServiceUnavailable)
	require.Equal(t, []any{"starting", "disconnected"}, []any{health["status"], health["database"]})
	for _, what := range []call{pushCall(item{Queue: "q"}), popCall("q", "wait=true"), get("/api/v1/resources/queues")} {
		got := ask[any](c, what)
		require.Equal(t, http.StatusServiceUnavailable, got.Status, what.Target)
		require.True(t, strings.HasPrefix(got.failure, "starting: "), got.failure)
		require.Equal(t, "1", got.Header.Get("Retry-After"), what.Target)
	}

	require.NoError(t, cluster.Restart(t.Context()))
	s.ready(t)
	require.True(t, c.isReady())
	c.pushIDs("q", "", "1")
	require.Equal(t, []string{"1"}, c.popIDs("q", ""))

	require.NoError(t, cluster.Kill())
	until(t, "the server is not ready", func() bool { return !c.isReady() })
	require.Equal(t, probe{"not_ready", "database_away"}, ask[probe](c, get("/readyz")).ok(http.StatusServiceUnavailable))
	require.Equal(t, http.StatusOK, ask[probe](c, get("/livez")).Status)
	require.NoError(t, cluster.Restart(t.Context()))
	until(t, "the server is ready again", c.isReady)
}

// A stop during the start must not wait for the database.
func TestStopWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	addr := freeAddress(t)
	s := launch(t, "postgres://u@"+freeAddress(t)+"/d?sslmode=disable", func(cfg *config.Config) {
		cfg.HTTP.Addr, cfg.HTTP.DrainDelay = addr, time.Hour
	})
	s.base = "http://" + addr
	until(t, "the port listens", func() bool {
		_, err := s.send(t.Context(), get("/livez"))
		return err == nil
	})
	require.NoError(t, s.stop(t))
}

// The probes must answer while every connection of the pool is in use.
func TestFullPoolDoesNotStarveTheProbes(t *testing.T) {
	t.Parallel()
	const poolSize = 2
	s := start(t, func(cfg *config.Config) { cfg.Database.PoolSize = poolSize })
	c := s.client(t)
	lock := producer(t, s.dsn)
	execute(t, lock, `BEGIN`)
	execute(t, lock, `LOCK TABLE belfry.queue`)
	var blocked []*pendingCall
	for i := range 3 * poolSize {
		blocked = append(blocked, c.begin(configureCall(fmt.Sprint("q", i), nil)))
	}
	until(t, "every connection of the pool waits for the lock", func() bool {
		var waiting int
		require.NoError(t, lock.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'belfry' AND wait_event_type = 'Lock'`).Scan(&waiting))
		return waiting == poolSize
	})
	for range 3 {
		require.Equal(t, http.StatusOK, ask[any](c, get("/health")).Status)
		require.True(t, c.isReady())
	}
	execute(t, lock, `ROLLBACK`)
	for _, b := range blocked {
		b.ends()
		require.NoError(t, b.err)
		require.Less(t, b.reply.Status, 300)
	}
}

// When a server stops, it must first report that it is not ready, and close the port later. A client that does not finish
// its request body must not make the stop fail.
func TestStopIsAnnouncedBeforeThePortCloses(t *testing.T) {
	t.Parallel()
	for delay := time.Second; !stopsAnnounced(t, delay); delay *= 4 {
		t.Logf("the test machine was slower than the drain delay of %s: trying again with a longer delay", delay)
	}
}

// stopsAnnounced stops a server. It returns false if the requests were not sent before the drain delay ended.
func stopsAnnounced(t *testing.T, delay time.Duration) bool {
	t.Helper()
	s := start(t, func(cfg *config.Config) { cfg.HTTP.DrainDelay, cfg.HTTP.ShutdownTimeout = delay, 2*time.Second })
	c := s.client(t)
	stalled, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.base, "http://"))
	require.NoError(t, err)
	defer func() { _ = stalled.Close() }()
	_, err = stalled.Write([]byte("POST " + pushPath + " HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{"))
	require.NoError(t, err)
	waiting := c.begin(popCall("empty", "wait=true&timeout=60000"))
	c.untilWaiting(1)

	started := time.Now()
	s.cancel()
	var ready, health, pushed reply
	until(t, "the server is not ready", func() bool {
		ready, err = s.send(t.Context(), get("/readyz"))
		return err != nil || ready.Status != http.StatusOK
	})
	if err == nil {
		health, err = s.send(t.Context(), get("/health"))
	}
	s.http.CloseIdleConnections()
	if err == nil {
		pushed, err = s.send(t.Context(), pushCall(item{Queue: "q", TransactionID: "1"}))
	}
	if time.Since(started) >= delay {
		return false
	}
	require.NoError(t, err, "the server must serve new connections and requests during the drain delay")
	require.Equal(t, probe{"not_ready", "draining"}, read[probe](t, ready).ok(http.StatusServiceUnavailable))
	require.Equal(t, "stopping", read[map[string]any](t, health).ok(http.StatusServiceUnavailable)["status"])
	require.Equal(t, http.StatusCreated, pushed.Status)

	require.Equal(t, http.StatusNoContent, waiting.delivery().Status)
	require.GreaterOrEqual(t, time.Since(started), delay, "waiting pops must wait during the drain delay")
	require.NoError(t, s.stop(t))
	_, err = s.send(t.Context(), get("/livez"))
	require.Error(t, err)
	return true
}
