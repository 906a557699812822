package sweep

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
)

// acquire leases a job. The test ends the lease.
func (r *fixture) acquire(j job) *jobLease {
	r.t.Helper()
	h, err := r.Sweeper.acquire(enginetest.Context(r.t), j)
	require.NoError(r.t, err)
	return h
}

func TestOneInstanceAtATimeRunsAJob(t *testing.T) {
	r := newFixture(t)
	other, _, _ := newSweeper(r.pool, r.counted)
	mine := r.acquire(r.retention())
	require.NotNil(t, mine)
	theirs, err := other.acquire(enginetest.Context(t), other.retention())
	require.NoError(t, err)
	require.Nil(t, theirs)
	require.NotNil(t, r.acquire(r.eviction()), "another job is free")
	require.NoError(t, mine.release(enginetest.Context(t)))
	theirs, err = other.acquire(enginetest.Context(t), other.retention())
	require.NoError(t, err)
	require.Nil(t, theirs, "the next run is due after an interval")
	r.exec("UPDATE belfry.sweep SET next_at = now()")
	theirs, err = other.acquire(enginetest.Context(t), other.retention())
	require.NoError(t, err)
	require.NotNil(t, theirs)
}

// An instance that freezes during a run loses its lease. It detects this when it continues.
func TestAFrozenInstanceIsReplaced(t *testing.T) {
	r := newFixture(t)
	frozen := r.acquire(r.retention())
	r.exec("UPDATE belfry.sweep SET next_at = now()")
	require.Nil(t, r.acquire(r.retention()), "the job is leased")
	left := r.number("SELECT extract(epoch FROM held_until - clock_timestamp())::bigint FROM belfry.sweep")
	require.LessOrEqual(t, left, int64(leaseDuration/time.Second), "a lease without a renewal ends soon")
	r.exec("UPDATE belfry.sweep SET held_until = now()")
	next := r.acquire(r.retention())
	require.NotNil(t, next)
	frozen.renewed = time.Now().Add(-renewAfter)
	require.ErrorIs(t, frozen.renew(enginetest.Context(t)), errLeaseLost)
	require.NoError(t, frozen.release(enginetest.Context(t)), "releasing a lost lease does not end the lease of another instance")
	next.renewed = frozen.renewed
	require.NoError(t, next.renew(enginetest.Context(t)))
	require.Equal(t, int64(1), r.number("SELECT count(*) FROM belfry.sweep WHERE held_until > clock_timestamp()"))
}

func TestRunSweepsAtTheStartAndInIntervals(t *testing.T) {
	r := newFixture(t, func(c *Config) { c.RetentionInterval, c.EvictionInterval = minInterval, minInterval })
	r.push("p", 2)
	r.push("o", 2)
	r.age("p", 2)
	r.options(keepHalfAnHour + ", " + waitHalfAnHour)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	enginetest.Await(t, "partition p is swept", func() bool { return len(r.stored("p")) == 0 })
	r.age("o", 2)
	enginetest.Await(t, "partition o is swept", func() bool { return len(r.stored("o")) == 0 })
	cancel()
	require.NoError(t, <-done)
	r.checkInvariants()
}

// The job partitions runs once per PartitionCleanupInterval.
func TestRunRemovesIdlePartitionsInIntervals(t *testing.T) {
	r := newFixture(t, func(c *Config) { c.PartitionCleanupInterval = minInterval })
	r.push("q", 1) // creates the queue
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	for n, name := range []string{"a", "b"} {
		r.exec(`INSERT INTO belfry.partition (queue_id, name, created_at)
			SELECT id, $1, now() - interval '31 days' FROM belfry.queue WHERE name = 'q'`, name)
		enginetest.Await(t, name+" is removed", func() bool { return len(r.partitionNames()) == 1 })
		enginetest.Await(t, "that run is over", func() bool { return enginetest.Metric(t, r.reg, "belfry_sweep_runs_total") > int64(n) })
	}
	cancel()
	require.NoError(t, <-done)
}

// A partition that cannot be swept does not stop the sweep of other partitions.
func TestAPartitionThatFailsIsLeftOut(t *testing.T) {
	r := newFixture(t)
	r.options(keepHalfAnHour)
	for _, p := range []string{"a", "b", "c"} {
		r.push(p, 2)
		r.age(p, 2)
	}
	r.options(keepHalfAnHour)
	r.exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF OLD.partition_id = (SELECT id FROM belfry.partition WHERE name = 'b') THEN RAISE EXCEPTION 'no'; END IF;
		RETURN OLD; END $$`)
	r.exec(`CREATE TRIGGER refuse BEFORE DELETE ON belfry.message FOR EACH ROW EXECUTE FUNCTION refuse()`)
	r.sweep(r.retention())
	require.Empty(t, r.stored("a"))
	require.Len(t, r.stored("b"), 2)
	require.Empty(t, r.stored("c"))
	require.Equal(t, int64(1), enginetest.Metric(t, r.reg, "belfry_sweep_failures_total"))
}

func TestASweepWithoutADatabaseFails(t *testing.T) {
	r := newFixture(t)
	r.push("p", 1)
	r.options(keepHalfAnHour)
	pool := enginetest.Pool(t, r.dsn)
	pool.Close()
	closed, _, _ := newSweeper(pool, r.counted)
	err := closed.runOnce(enginetest.Context(t), closed.retention())
	require.ErrorContains(t, err, "listing queues")
	err = closed.runOnce(enginetest.Context(t), closed.partitions())
	require.ErrorContains(t, err, "acquiring the sweep partitions")
}

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

// A pop of one partition by name finds the new partition with this name, although the store cached
// the removed partition.
func TestAPopByNameFindsTheNewPartition(t *testing.T) {
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
	target, _, ok, err := r.store.Resolve(enginetest.Context(t), req)
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
