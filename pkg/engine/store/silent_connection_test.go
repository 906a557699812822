package store_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
	"github.com/belfry-mq/belfry/test/pgproxy"
	"github.com/belfry-mq/belfry/test/stopwatch"
)

// A connection falls silent while an ack has locked its cursors. Postgres does not learn that the
// server gave up at its request timeout. It must release the locks by itself soon after, because no
// other session can use the partition until then.
func TestPostgresReleasesTheLocksOfASilentConnection(t *testing.T) {
	t.Parallel()
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
