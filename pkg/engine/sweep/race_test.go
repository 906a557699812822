package sweep

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/store"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
)

// Pushes, pops, acks, new groups and two sweeping instances run at once over a few partitions. No
// ack under a live lease misses its message, the invariants hold, every deletion is counted once,
// and nothing deadlocks.
func TestSweepsRaceWithPushesPopsAndAcks(t *testing.T) {
	t.Parallel()
	r := newFixture(t, small(7))
	other, _, _ := newSweeper(enginetest.Pool(t, r.dsn), r.counted, small(5))
	// This store did not deliver the messages, so its acks look them up in the table.
	acker := enginetest.Store(t, r.pool)
	r.push("p0", 1)
	r.options("lease_time = 1, retention_enabled = true, retention_seconds = 2, completed_retention_seconds = 1, max_wait_time_seconds = 1, expire_after_seconds = 1")
	r.backdateInserts("800 ms")

	work := newWorkload()
	for worker := range 3 {
		work.repeatPush(r, worker, 6)
		work.repeat(func(n int) error {
			group := fmt.Sprint("g", worker)
			if n%10 == 9 {
				group = fmt.Sprint("late ", worker, n%50)
			}
			return r.popAndAck(group, acker)
		})
	}
	for _, s := range []*Sweeper{r.Sweeper, other} {
		for _, j := range []job{s.retention(), s.eviction()} {
			work.repeatJob(t.Context(), s, j)
		}
	}
	require.NoError(t, work.Wait())
	require.Zero(t, r.deadlocks())
	r.exec("UPDATE belfry.cursor SET lease_until = now() - interval '1 s', ready_at = now() - interval '1 s' WHERE lease_id IS NOT NULL")
	r.exec("UPDATE belfry.message SET created_at = created_at - interval '1 h'")
	r.sweep(r.eviction())
	r.sweep(r.retention())
	require.Zero(t, r.number("SELECT count(*) FROM belfry.message"))
	n := r.counts()
	require.Equal(t, r.number("SELECT sum(last_seq) FROM belfry.partition"), n.retention+n.completed+n.evicted, "each message is counted once")
	require.Positive(t, n.retention+n.completed+n.evicted)
}

// popAndAck pops messages and acks them through another store. It fails if an ack is refused while
// the lease is live.
func (r *fixture) popAndAck(group string, acker *store.Store) error {
	began := time.Now()
	d, err := r.store.Pop(r.t.Context(), &queue.PopRequest{Queue: "q", Group: group, Batch: 5, Partitions: 2})
	if err != nil {
		return err
	}
	results, err := acker.Ack(r.t.Context(), ackItems(&d, group, func() queue.AckStatus { return queue.AckCompleted }))
	if err != nil {
		return err
	}
	for _, result := range results {
		if !result.Success && time.Since(began) < time.Second {
			return fmt.Errorf("an ack under a live lease was refused: %s", result.Error)
		}
	}
	return nil
}
