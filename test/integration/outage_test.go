package integration_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/test/pgtest"
	"github.com/belfry-mq/belfry/test/stopwatch"
)

const (
	outageTimeout = time.Second
	// outageAnswer is the longest time for an answer while the database is unavailable: the request timeout plus 3 s.
	outageAnswer = outageTimeout + 3*time.Second
)

// TestDatabaseAway kills Postgres under load. Requests must get 503. After the restart of Postgres, the server must work
// again without a restart. Each message that was answered with 201 must be delivered.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	cluster := pgtest.OwnCluster(t)
	require.NoError(t, cluster.CreateDatabase(t.Context(), "away"))
	before := startOn(t, cluster.URL("away")).client(t) // this server has a longer timeout than the one below
	before.pushIDs("held", "", "h")
	require.Empty(t, before.popIDs("q", "consumerGroup=g"), "the first pop only creates the group")
	held := before.pop("held", "").ok(http.StatusOK)
	before.pushIDs("asleep", "", "a")
	before.putToSleep("asleep", "g")
	require.NoError(t, before.stop(t))
	s := startOn(t, cluster.URL("away"), func(cfg *config.Config) { cfg.Database.RequestTimeout = outageTimeout })
	c := s.client(t)
	waiting := c.begin(popCall("held", "wait=true&timeout=60000"))
	c.untilWaiting(1)

	acknowledged, enough := make(chan string, 1<<16), make(chan struct{})
	pushers := pushUntilFailure(t, s, acknowledged, 100, enough)
	receive(t, enough, "100 pushes succeed")
	require.NoError(t, cluster.Kill())
	require.NoError(t, pushers.Wait())
	close(acknowledged)
	missing := map[string]bool{}
	for id := range acknowledged {
		missing[id] = true
	}
	require.GreaterOrEqual(t, len(missing), 100)

	for range 2 {
		requireUnavailable(c, held)
	}
	sick := ask[map[string]any](c, get("/health"))
	require.Equal(t, http.StatusServiceUnavailable, sick.Status)
	require.Equal(t, "unhealthy", sick.body["status"])
	require.Equal(t, "disconnected", sick.body["database"])
	require.Equal(t, http.StatusServiceUnavailable, waiting.delivery().Status, "the waiting pop must get 503 too")

	require.NoError(t, cluster.Restart(t.Context()))
	until(t, "the server is healthy", func() bool {
		return ask[any](c, get("/health")).Status == http.StatusOK
	})
	until(t, "pushes work", func() bool { return c.push(item{Queue: "after", TransactionID: "1"}).Status == http.StatusCreated })
	until(t, "acks work", func() bool {
		got := c.ackBatch("", held.ack("completed")...)
		return got.Status == http.StatusOK && got.body[0].Success
	})
	until(t, "the message of the cursor with ready_at NULL is delivered", func() bool { return c.pop("asleep", "consumerGroup=g").Status == http.StatusOK })
	until(t, "every acknowledged message is delivered", func() bool {
		got := c.pop("q", "consumerGroup=g&batch=10000&partitions=100&autoAck=true&wait=true&timeout=1000")
		for _, id := range got.body.ids() {
			delete(missing, id)
		}
		return len(missing) == 0
	})
}

// requireUnavailable requires that every verb is answered with 503 within outageAnswer.
func requireUnavailable(c client, held delivery) {
	c.t.Helper()
	for _, what := range []call{
		pushCall(item{Queue: "q", TransactionID: "while away"}), pushCall(item{Queue: "new while away"}),
		popCall("q", "consumerGroup=g"), popCall("q", "consumerGroup=g&wait=true&timeout=60000"), popTaggedCall("namespace=q"),
		ackCall(held.ack("completed")[0]), ackBatchCall("", held.ack("completed")...), extendCall(held.LeaseID, "{}"),
		configureCall("q", nil), deleteCall("held"),
	} {
		watch := stopwatch.Start(c.t)
		got := ask[any](c, what)
		watch.Within(c.t, outageAnswer, what.Target)
		require.Equal(c.t, http.StatusServiceUnavailable, got.Status, "%s %s: %s", what.Method, what.Target, got.Raw)
		require.Equal(c.t, "1", got.Header.Get("Retry-After"), what.Target)
		require.Equal(c.t, "the database is not available; send the request again", got.failure)
	}
}

// pushUntilFailure starts four goroutines that push until they get a 503. It sends each id that was answered with 201 to
// acknowledged, and closes enough when it has sent least of them.
func pushUntilFailure(t *testing.T, s *server, acknowledged chan<- string, least int64, enough chan<- struct{}) *errgroup.Group {
	t.Helper()
	pushers := &errgroup.Group{}
	var stored atomic.Int64
	for p := range 4 {
		pushers.Go(func() error {
			for i := 0; ; i++ {
				id := fmt.Sprintf("%d.%d", p, i)
				got, err := s.send(t.Context(), pushCall(item{Queue: "q", Partition: fmt.Sprint(i % 10), TransactionID: id}))
				switch {
				case err != nil:
					return err
				case got.Status == http.StatusServiceUnavailable:
					return nil
				case got.Status != http.StatusCreated:
					return fmt.Errorf("pushing %s: status %d: %s", id, got.Status, got.Raw)
				}
				acknowledged <- id
				if stored.Add(1) == least {
					close(enough)
				}
			}
		})
	}
	return pushers
}
