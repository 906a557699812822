package store_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/engine/batch"
	"github.com/belfry-mq/belfry/pkg/engine/store"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
	"github.com/belfry-mq/belfry/test/pgproxy"
	"github.com/belfry-mq/belfry/test/pgtest"
	"github.com/belfry-mq/belfry/test/stopwatch"
)

// prepared returns the statements that the connections of a pool have prepared, by process id.
func prepared(t *testing.T, pool *pgxpool.Pool) map[uint32][]string {
	t.Helper()
	var conns []*pgxpool.Conn
	all := map[uint32][]string{}
	for range pool.Config().MaxConns {
		conn, err := pool.Acquire(t.Context())
		require.NoError(t, err)
		conns = append(conns, conn)
		rows, err := conn.Query(t.Context(), "SELECT left(statement, 60) FROM pg_prepared_statements ORDER BY 1", pgx.QueryExecModeExec)
		require.NoError(t, err)
		statements, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		all[conn.Conn().PgConn().PID()] = statements
	}
	for _, conn := range conns {
		conn.Release()
	}
	return all
}

// After Warm, the first push, pop and ack prepare no statement on any connection. Warm leaves no rows in
// the tables.
func TestWarm(t *testing.T) {
	t.Parallel()
	cfg := postgres.DefaultConfig()
	cfg.URL, cfg.RequestTimeout, cfg.PoolSize = setting.Secret(pgtest.Database(t)), 30*time.Second, 3
	pool, err := postgres.Open(t.Context(), cfg, "store-test", 3)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	urgent, err := pool.OpenRelated(t.Context(), cfg, "store-test-urgent", 3)
	require.NoError(t, err)
	t.Cleanup(urgent.Close)
	s := store.New(pool, store.Config{Defaults: enginetest.AtOnce(), Batch: batch.DefaultConfig(), Urgent: urgent.Pool},
		store.NewMetrics(prometheus.NewRegistry()), zap.NewNop())
	t.Cleanup(func() { require.NoError(t, s.Close(context.Background())) })
	require.NoError(t, s.Warm(t.Context()))

	ordinary, forWoken := prepared(t, pool.Pool), prepared(t, urgent.Pool)
	require.Len(t, ordinary, 3)
	for _, statements := range ordinary {
		require.NotEmpty(t, statements)
	}
	for table, count := range map[string]int{"queue": 0, "partition": 0, "consumer_group": 0, "cursor": 0, "message": 0} {
		var rows int
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM belfry."+table, pgx.QueryExecModeExec).Scan(&rows))
		require.Equal(t, count, rows, table)
	}
	for range 20 { // the pool hands out its connections in turn
		_, err := s.Push(t.Context(), []queue.PushItem{{Queue: "q", Partition: queue.NewID().String(), TransactionID: "t", Payload: []byte(`{}`)}})
		require.NoError(t, err)
		delivery, err := s.Pop(t.Context(), request("g", 1))
		require.NoError(t, err)
		require.Len(t, delivery.Messages, 1)
		results, err := s.Ack(t.Context(), acks(delivery, queue.AckCompleted, delivery.Messages...))
		require.NoError(t, err)
		require.Empty(t, results[0].Error)
		other := acks(delivery, queue.AckCompleted, delivery.Messages...)
		other[0].LeaseID = queue.NewID().String() // not in the cache, so the message is looked up
		results, err = s.Ack(t.Context(), other)
		require.NoError(t, err)
		require.NotEmpty(t, results[0].Error)
		other[0].PartitionID = queue.NewID().String() // not in the cache, so the partition is looked up
		results, err = s.Ack(t.Context(), other)
		require.NoError(t, err)
		require.NotEmpty(t, results[0].Error)
		require.NoError(t, s.Release(t.Context(), delivery.LeaseID))
		_, err = s.Preflight(t.Context(), []queue.Probe{{Target: delivery.Target, Want: 1}}, time.Minute)
		require.NoError(t, err)
		consuming := request("g", 1, withAutoAck(true))
		_, err = s.Claim(t.Context(), []queue.Assignment{{Request: consuming, Target: delivery.Target}})
		require.NoError(t, err)
	}
	require.Equal(t, ordinary, prepared(t, pool.Pool))
	require.Equal(t, forWoken, prepared(t, urgent.Pool))
}

// A connection breaks without an error while an ack has locked its cursors. Postgres does not learn
// that the server has given up after its request timeout. Postgres must end the session soon after
// that, because no other session can use the partition until then.
func TestPostgresReleasesTheLocksOfASilentConnection(t *testing.T) {
	const timeout = time.Second
	direct := newBench(t)
	network, through := pgproxy.New(t, direct.pool.Config().ConnString())
	s := newStore(t, newPool(t, through, timeout), prometheus.NewRegistry(), nil)
	direct.push("p", "1", "2")
	d := direct.pop(request("g", 1))
	release := direct.lockRows(holdCursors)
	failed := make(chan error, 1)
	var frozen atomic.Bool
	go func() {
		for {
			_, err := s.Ack(t.Context(), acks(d, queue.AckRetry, d.Messages...))
			if err == nil || frozen.Load() {
				failed <- err
				return
			}
		}
	}()
	awaitLockWait(t, direct)
	frozen.Store(true)
	network.FreezeOld()
	release() // the ack gets its lock, and the server gets no answer
	require.Error(t, <-failed)
	watch := stopwatch.Start(t)
	enginetest.Await(t, "the locks of the silent session", func() bool {
		var idle int
		direct.scan(`SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND state LIKE 'idle in transaction%'`, nil, &idle)
		return idle == 0
	})
	watch.Within(t, 5*timeout, "the locks are released")
	require.NoError(t, func() error {
		_, err := direct.Ack(t.Context(), acks(d, queue.AckCompleted, d.Messages...))
		return err
	}())
}
