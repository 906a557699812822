package sweep

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
)

// idle dates the last push of every partition back by 31 days.
func (r *fixture) idle() {
	r.t.Helper()
	r.exec("UPDATE belfry.partition SET created_at = now() - interval '31 days', last_push_at = last_push_at - interval '31 days'")
}

func (r *fixture) partitionNames() (found []string) {
	r.t.Helper()
	require.NoError(r.t, r.pool.QueryRow(enginetest.Context(r.t), "SELECT coalesce(array_agg(name ORDER BY name), '{}') FROM belfry.partition").Scan(&found))
	return found
}

func TestIdleEmptyPartitionsAreRemoved(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	for _, p := range []string{"busy", "empty", "full"} {
		r.push(p, 3)
	}
	r.consume("g", 9)
	r.options(completedHalfAnHour)
	r.age("busy", 3)
	r.age("empty", 3)
	r.sweep(r.retention())
	r.sweep(r.partitions())
	require.Len(t, r.partitionNames(), 3, "the last push is too recent")
	r.idle()
	r.exec("UPDATE belfry.partition SET last_push_at = now() WHERE name = 'busy'")
	r.sweep(r.partitions())
	require.Equal(t, []string{"busy", "full"}, r.partitionNames())
	require.Equal(t, int64(2), r.number("SELECT count(*) FROM belfry.cursor"), "the cursors of a removed partition are deleted")
	require.Equal(t, 1, r.published.resyncs, "a resync is published for requests that wait for the partition")
	require.Equal(t, int64(1), enginetest.Metric(t, r.reg, "belfry_sweep_partitions_removed_total"))

	r.push("empty", 1)
	require.Equal(t, []string{"1"}, names(r.pop("g", 10)), "a push creates the partition again, for the groups of the whole queue")
}

// A pop of one partition by name finds the new partition of that name, although the store cached the
// old one.
func TestAPopByNameFindsTheNewPartition(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	name := "p"
	req := &queue.PopRequest{Queue: "q", Group: "g", Partition: &name, Batch: 10, Partitions: 1, AutoAck: true}
	r.push("p", 1)
	d, err := r.store.Pop(enginetest.Context(t), req)
	require.NoError(t, err)
	require.Len(t, d.Messages, 1)
	r.options(completedHalfAnHour)
	r.age("p", 1)
	r.sweep(r.retention())
	target, ok, err := r.store.Resolve(enginetest.Context(t), req)
	require.NoError(t, err)
	require.True(t, ok)
	r.idle()
	r.sweep(r.partitions())
	require.Empty(t, r.partitionNames())
	found, err := r.store.Preflight(enginetest.Context(t), []queue.Probe{{Target: target, Want: 1}}, enginetest.Patience)
	require.NoError(t, err)
	require.True(t, found[0].Gone, "a waiting request learns that the partition is gone")

	r.push("p", 2)
	d, err = r.store.Pop(enginetest.Context(t), req)
	require.NoError(t, err)
	require.Len(t, d.Messages, 2)
}

// A push that runs during the removal loses no message.
func TestPushesRaceWithTheRemoval(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.push("p", 1)
	r.consume("g", 1)
	r.options(completedHalfAnHour)
	for n := range 30 {
		r.exec("UPDATE belfry.message SET created_at = created_at - interval '1 hour'")
		r.sweep(r.retention())
		r.idle()
		done := make(chan error, 2)
		go func() {
			_, err := r.store.Push(t.Context(), []queue.PushItem{
				{Queue: "q", Partition: "p", TransactionID: fmt.Sprint("race ", n), Payload: []byte(`{}`)},
			})
			done <- err
		}()
		go func() {
			ids, _, err := r.findIdle(t.Context(), 0)
			if err == nil {
				_, err = r.remove(t.Context(), ids)
			}
			done <- err
		}()
		require.NoError(t, <-done)
		require.NoError(t, <-done)
		d := r.pop("g", 10)
		require.Equal(t, []string{fmt.Sprint("race ", n)}, names(d))
		r.ack(d, queue.AckCompleted, d.Messages...)
		r.checkInvariants()
	}
	require.Zero(t, r.number("SELECT count(*) FROM belfry.cursor c WHERE NOT EXISTS (SELECT 1 FROM belfry.partition p WHERE p.id = c.partition_id)"))
}

func TestPartitionCleanupIntervalIsValidated(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	require.NoError(t, cfg.Validate())
	cfg.PartitionCleanupInterval = minInterval - 1
	require.ErrorContains(t, cfg.Validate(), "sweep.partition_cleanup_interval is 99.999999ms: it must be at least 100ms")
}
