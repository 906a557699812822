package store_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/sql"
)

// A pop returns the target that it searched. A waiter compares it with the target it waits for.
func TestAPopReturnsTheTargetItSearched(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	req := request("g", 1)
	require.Zero(t, b.pop(req).Target, "the queue does not exist")

	resolve := func() queue.Target {
		t.Helper()
		target, ok, err := b.Resolve(t.Context(), req)
		require.NoError(t, err)
		require.True(t, ok)
		return target
	}
	b.register()
	first := resolve()
	require.Equal(t, first, b.pop(req).Target)

	_, err := b.pool.Exec(t.Context(), sql.Query("engine/catalog/queue_delete"), "q")
	require.NoError(t, err)
	require.Equal(t, first, resolve(), "the target is cached")
	require.Zero(t, b.pop(req).Target, "the queue was deleted")

	b.register()
	second := resolve()
	require.NotEqual(t, first, second)
	require.Equal(t, second, b.pop(req).Target)
	b.push("p", "m")
	delivery := b.pop(req)
	require.Equal(t, second, delivery.Target)
	require.Len(t, delivery.Messages, 1)
}

// A cursor that a SQL consumer has locked counts as leased, not as deleted. The empty answer says
// when to pop again.
func TestAPopOfALockedCursorReturnsItsTarget(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("g")
	req := request("g", 1)
	target, _, err := b.Resolve(t.Context(), req)
	require.NoError(t, err)
	b.push("p", "m")
	b.lockRows(holdCursors)
	held := b.pop(req)
	require.Empty(t, held.Messages)
	require.True(t, held.HasNext)
	require.Equal(t, target, held.Target)
}

// A group is deleted while a pop waits, and the pop creates it again. Messages from before the
// deletion are not new to that group. If the queue was deleted too, every message of the new queue
// is new.
func TestAWaitingPopRecreatesItsGroupWithoutOldMessages(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register()
	b.exec(`UPDATE belfry.queue SET created_at = created_at - interval '1 day'`)
	req := request("g", 9)
	req.WaitingSince, req.Subscription = time.Now().Add(-time.Minute), queue.Subscription{Mode: queue.SubscribeNew}
	require.Empty(t, b.pop(req).Messages)
	b.push("p", "before")
	b.exec(`DELETE FROM belfry.consumer_group`)
	require.Empty(t, b.pop(req).Messages)

	b.exec(`UPDATE belfry.queue SET deleted_at = clock_timestamp()`)
	b.push("p", "in the new queue")
	require.Equal(t, []string{"in the new queue"}, transactionIDs(b.pop(req)))
}

// A queue is created while a pop waits, and the registration of the group then waits for a connection. Its
// first message is new to the group all the same: the wait for the connection does not move the start.
func TestAMessageIsNewHoweverLongTheGroupTakesToJoin(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cfg := postgres.DefaultConfig()
	cfg.URL, cfg.PoolSize = setting.Secret(b.pool.Config().ConnString()), 1
	small, err := postgres.Open(t.Context(), cfg, "one", 0)
	require.NoError(t, err)
	t.Cleanup(small.Close)
	s := newStore(t, small, prometheus.NewRegistry(), nil)

	req := request("g", 9)
	req.WaitingSince, req.Subscription = time.Now(), queue.Subscription{Mode: queue.SubscribeNew}
	b.push("p", "first")

	tx, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `LOCK TABLE belfry.queue`)
	require.NoError(t, err)
	popped := make(chan queue.Delivery, 1)
	go func() {
		d, err := s.Pop(t.Context(), req)
		assert.NoError(t, err)
		popped <- d
	}()
	awaitLockWait(t, b)
	next := make(chan *pgxpool.Conn, 1)
	go func() {
		conn, err := small.Acquire(t.Context()) // after the look for the group, before the registration
		assert.NoError(t, err)
		next <- conn
	}()
	b.exec(`SELECT pg_sleep(0.1)`)
	require.NoError(t, tx.Rollback(t.Context()))
	conn := <-next
	b.exec(`SELECT pg_sleep(0.3)`)
	conn.Release()
	require.Equal(t, []string{"first"}, transactionIDs(<-popped))
}
