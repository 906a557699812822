package sweep

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// take is the job's own, for a run whose end the test decides.
func (r *fixture) take(j job) *hold {
	r.t.Helper()
	h, err := r.Sweeper.take(testContext(r.t), j)
	require.NoError(r.t, err)
	return h
}

func TestOneInstanceAtATimeRunsAJob(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	other, _, _ := newSweeper(r.pool)
	mine := r.take(r.retention())
	require.NotNil(t, mine)
	theirs, err := other.take(testContext(t), other.retention())
	require.NoError(t, err)
	require.Nil(t, theirs)
	require.NotNil(t, r.take(r.eviction()), "another job is another matter")
	require.NoError(t, mine.done(testContext(t)))
	theirs, err = other.take(testContext(t), other.retention())
	require.NoError(t, err)
	require.Nil(t, theirs, "it was just done; the next is due after an interval")
	r.exec("UPDATE belfry.sweep SET next_at = now()")
	theirs, err = other.take(testContext(t), other.retention())
	require.NoError(t, err)
	require.NotNil(t, theirs)
}

// An instance that froze in a run loses it, and notices when it goes on.
func TestAFrozenInstanceIsReplaced(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	frozen := r.take(r.retention())
	r.exec("UPDATE belfry.sweep SET next_at = now()")
	require.Nil(t, r.take(r.retention()), "it is held")
	left := r.number("SELECT extract(epoch FROM held_until - clock_timestamp())::bigint FROM belfry.sweep")
	require.LessOrEqual(t, left, int64(holdFor/time.Second), "but not for long without a sign of life")
	r.exec("UPDATE belfry.sweep SET held_until = now()")
	next := r.take(r.retention())
	require.NotNil(t, next)
	frozen.since = time.Now().Add(-holdAgain)
	require.ErrorIs(t, frozen.on(testContext(t)), errLost)
	require.NoError(t, frozen.done(testContext(t)), "and does not take it away from the next")
	next.since = frozen.since
	require.NoError(t, next.on(testContext(t)))
	require.Equal(t, int64(1), r.number("SELECT count(*) FROM belfry.sweep WHERE held_until > clock_timestamp()"))
}

func TestRunSweepsAtTheStartAndInIntervals(t *testing.T) {
	t.Parallel()
	r := newFixture(t, func(c *Config) { c.RetentionInterval, c.EvictionInterval = leastInterval, leastInterval })
	r.push("p", 2)
	r.push("o", 2)
	r.age("p", 2)
	r.options(keepHalfAnHour + ", " + waitHalfAnHour)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	r.await("p is swept", func() bool { return len(r.stored("p")) == 0 })
	r.age("o", 2)
	r.await("o is swept", func() bool { return len(r.stored("o")) == 0 })
	cancel()
	require.NoError(t, <-done)
	r.exact()
}

// Idle partitions are looked for as often as it is set.
func TestRunRemovesIdlePartitionsInIntervals(t *testing.T) {
	t.Parallel()
	r := newFixture(t, func(c *Config) { c.PartitionCleanupInterval = leastInterval })
	r.push("q", 1) // so that there is the queue
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	for n, name := range []string{"a", "b"} {
		r.exec(`INSERT INTO belfry.partition (queue_id, name, created_at)
			SELECT id, $1, now() - interval '31 days' FROM belfry.queue WHERE name = 'q'`, name)
		r.await(name+" is removed", func() bool { return len(r.partitionNames()) == 1 })
		r.await("that look is over", func() bool { return r.metric("belfry_sweep_runs_total") > int64(n) })
	}
	cancel()
	require.NoError(t, <-done)
}

// One partition that cannot be swept does not keep the others from it.
func TestAPartitionThatFailsIsLeftOut(t *testing.T) {
	t.Parallel()
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
	require.Equal(t, int64(1), r.metric("belfry_sweep_failures_total"))
}

func TestASweepWithoutADatabaseFails(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.push("p", 1)
	r.options(keepHalfAnHour)
	pool := openPool(t, r.dsn)
	pool.Close()
	away, _, _ := newSweeper(pool)
	_, err := away.once(testContext(t), away.retention())
	require.ErrorContains(t, err, "listing queues")
	_, err = away.once(testContext(t), away.partitions())
	require.ErrorContains(t, err, "taking the sweep partitions")
}
